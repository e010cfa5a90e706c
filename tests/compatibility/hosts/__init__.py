"""A process of each client that holds members of groups and transactional producers; ``../members.py`` asks them.

One process serves a whole session; a member that must crash has one to itself, which is killed.
"""
