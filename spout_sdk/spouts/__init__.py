"""The spout side: the logic of a task, its collector and its pending trees."""
