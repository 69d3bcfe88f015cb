"""Problems of a machine, a cluster and its topologies, with their fixes. Pure: facts in, findings out.

`facts` has the input and the output of the checks, `checks`, `topic_checks` and `state_checks` a function for each of
them. The facts are gathered in `inspection.doctor_gathering`.
"""
