"""Whether what a review says holds: planted flaws, what the paper contradicts, hand-labelled pairs, checks by rule."""
