"""The loop that asks the model and runs its tools, and the text around it."""
