"""odek update: a newer odek in place of this one, checked as the installer checks it."""
