"""Where torch lives: data for trainers, the training stages, the base model and the adapter chain."""
