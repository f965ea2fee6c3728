"""Training of the refiner: its settings, rows, reward, what is watched. `training.refiner` is the stage."""
