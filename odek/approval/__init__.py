"""What needs the operator's word, and how it is asked."""
