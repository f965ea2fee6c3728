"""The refiner: short answers whose claims cite evidence, their grammar, their checks and their reward."""
