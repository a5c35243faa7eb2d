"""Approvals: what a project's files ask of the operator, and what the model's operations ask of a person."""
