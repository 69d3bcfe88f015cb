"""Problems of a machine, a cluster and its topologies, with their fixes. Pure: facts in, findings out.

`facts` has the input and the output of the checks, `checks` and `topic_checks` a function for each of them. The facts
are gathered in `inspection.doctor_gathering`.
"""
