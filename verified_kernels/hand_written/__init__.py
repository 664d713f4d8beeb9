"""Epilogues written by hand, one a task of the catalogue and called like it: what a good answer looks like.

Candidate files like any other: read by the closed tier, never imported.  They pass the same gate.
"""
