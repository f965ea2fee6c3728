"""Answers, votes on pairs of them, and the salt that raters are hashed with."""

import secrets

from alembic import op

from lab.store.migrate import one_standing, table

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the three tables; the salt is drawn once per database."""
    table(
        "answers",
        id="key",
        asked_at="moment",
        session="text",
        question="text",
        example_id="text?",
        stage="text",
        text="text",
        finish_reason="text",
        chain="text",
        stage_sha256="text",
        system_prompt="text",
        seed="whole",
        max_new_tokens="whole",
        temperature="real",
        dtype="text",
        verdict="json?",
    )
    op.create_index("answers_by_session", "answers", ["session", "asked_at"])
    table(
        "comparisons",
        id="key",
        voted_at="moment",
        rater="text",
        question="text",
        example_id="text?",
        left_answer="answers.id",
        right_answer="answers.id",
        left_stage="text",
        right_stage="text",
        choice="text",
        voided_at="moment?",
    )
    one_standing("one_vote_per_pair_and_rater", "comparisons", "left_answer", "right_answer", "rater")
    op.create_index("comparisons_by_time", "comparisons", ["voted_at"])
    settings = table("settings", name="key", value="text")
    op.bulk_insert(settings, [{"name": "rater_salt", "value": secrets.token_hex(32)}])


def downgrade() -> None:
    for name in ("comparisons", "answers", "settings"):
        op.drop_table(name)
