"""What people prefer: votes on pairs and annotations of answers, how far raters agree, and rows for trainers."""
