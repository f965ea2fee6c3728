"""Training of the refiner: its reward, rubric items and what is watched. `training.refiner` is the stage."""
