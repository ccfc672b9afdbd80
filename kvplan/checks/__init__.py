"""What is wrong with deployments: rules over manifests and plans, one file each in rules/.

models.py      the checkpoints, from the lock, the built-ins, the Hub
planning.py    from a deployment to a plan, or why there is none
case.py        a deployment with all that rules look at
registry.py    the rules, found by their files
suppression.py comments, annotations and settings that switch a rule off
run.py         paths in, report out
"""
