"""The consumer group protocol of KIP-848: the coordinator plans, and members are led to the plan one step at a time."""
