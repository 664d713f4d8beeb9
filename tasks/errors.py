"""What goes wrong with a task file, in one sentence each."""


class TaskError(ValueError):
    """A task that cannot be used: names the task, what is wrong with it, and the remedy."""
