"""What a run here would do, and why, without doing it: `odek sandbox explain`. Pure."""
