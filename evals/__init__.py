"""What a good answer is: records, facts, questions, verifiers, metrics, reports."""
