"""Programs: tasks of several stages, one short file each, found by looking into this folder."""
