"""A reviewer at work: papers to requests, engines that answer, rows that survive an interruption.

The lab reviews one paper by `review.review_article` or, as it is written, `review.stream_review`.
"""
