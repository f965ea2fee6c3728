"""A reviewer at work: papers to requests, engines that answer, rows that survive an interruption."""
