"""The loops of spouts and bolts, the process of a component, and the supervisor of many."""
