"""Problems of a machine, a cluster and the topics of its topologies, with their fixes. Pure: facts in, findings out.

`facts` has the input of the checks, `checks` and `topic_checks` a function for each of them, and their findings are
those of `inspection.health`, which judges what runs. The facts are gathered in `inspection.doctor_gathering`.
"""
