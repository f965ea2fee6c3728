"""Of which gene set and tissue something is said: pronouns, ellipsis, several tissues, lists, tables."""

import pytest

from tests.evals.thymus import cases, judged

PLACES = {
    "correct": (
        "Adipogenesis was tested in the thymus. It falls.",
        "Adipogenesis was tested in the thymus. The set falls.",
        "Adipogenesis was tested in the thymus. This set is downregulated.",
        "We looked at adipogenesis. In thymus, down. In liver, up.",
        "Up in liver; in thymus, down.",
        "Up in the liver, down in the thymus.",
        "Liver up, thymus down.",
        "Thymus down, liver up.",
        "Down in thymus, but up in liver.",
        "Adipogenesis is up in liver while in the thymus it is down.",
        "Unlike liver, thymus shows downregulation of adipogenesis.",
        "Unlike in the liver, adipogenesis falls in the thymus.",
        "In contrast to the liver, adipogenesis is downregulated in the thymus.",
        "Adipogenesis rises in liver, in contrast to thymus, where it falls.",
        "Adipogenesis goes up in liver, whereas thymus shows a decrease.",
        "Whereas liver shows an increase, thymus shows a decrease.",
        "While adipogenesis is up in liver, it is down in thymus.",
        "Liver and thymus go up and down, respectively.",
        "Adipogenesis is up and down in liver and thymus, respectively.",
        "In liver and thymus, adipogenesis is up and down, respectively.",
        "Compared with the liver, where it rises, adipogenesis falls in the thymus.",
        "As in the eye, adipogenesis is down in the thymus.",
        "Adipogenesis is down in both thymus and eye.",
        "Adipogenesis is reduced in the thymic stroma.",
        "In thymocytes, adipogenesis is reduced.",
        "Adipogenesis: thymus DOWN, liver UP, kidney UP.",
        "Adipogenesis is upregulated in liver. The thymus shows the opposite: downregulation.",
        "The thymus is the tissue in question. Adipogenesis there goes down.",
        "Thymus: down",
        "Thymus - down",
        "Thymus = DOWN",
        "Thymus (DOWN)",
        "thymus: \u2193, liver: \u2191",
        "Adipogenesis and myogenesis both fall in thymus.",
        "Myogenesis rises but adipogenesis falls in thymus.",
        "Glycolysis is up. Adipogenesis is down.",
        "Glycolysis is upregulated, adipogenesis downregulated.",
        "Of the sets tested, adipogenesis is down and glycolysis is up.",
        "Adipogenesis is down in the thymus, unlike glycolysis, which is up.",
        "The former, adipogenesis, is down.",
    ),
    "incorrect": (
        "Down in liver, but up in thymus.",
        "Down in the liver; in the thymus, up.",
        "Unlike liver, thymus shows an increase in adipogenesis.",
        "Adipogenesis falls in liver, whereas thymus shows an increase.",
        "In contrast to liver, where it falls, adipogenesis rises in thymus.",
        "Adipogenesis is down and up in liver and thymus, respectively.",
        "Adipogenesis was tested in the thymus. It rises.",
        "Glycolysis is down while adipogenesis is up in the thymus.",
        "Thymus: up. Liver: down.",
    ),
    "no_claim": (
        "Adipogenesis was tested in the liver. It falls.",
        "Glycolysis was tested in the thymus. It falls.",
        "Glycolysis falls in the thymus. So does hypoxia.",
        "Adipogenesis is downregulated in the spleen and lung.",
        "Adipogenesis in liver is down; the thymus was not examined.",
        "In liver, down.",
        "Liver: down",
        "Body weight is reduced in thymus donors.",
        "Thymus mass is decreased.",
        "The number of thymocytes falls.",
    ),
}


@pytest.mark.parametrize(("answer", "verdict"), cases(PLACES))
def test_a_direction_belongs_to_the_set_and_tissue_it_is_said_of(answer: str, verdict: str) -> None:
    found = judged(answer)
    assert found.verdict == verdict, (found.reason, found.claims)


LISTS = {
    "correct": (
        "- liver: UP\n- thymus: DOWN",
        "* liver: up\n* **thymus**: down\n* eye: up",
        "1. Liver: upregulated\n2. Thymus: downregulated",
        "1) liver \u2013 up\n2) thymus \u2013 down",
        "\u2022 liver: UP \u2022 thymus: DOWN",
        "| Tissue | Direction |\n|---|---|\n| liver | UP |\n| thymus | DOWN |",
        "| tissue | direction |\n|:---|:---:|\n| thymus | down |\n| liver | up |",
        "| Gene set | Tissue | Direction | NES |\n|---|---|---|---|\n| Adipogenesis | Thymus | DOWN | -1.9 |\n| Adipogenesis | Liver | UP | 1.4 |",
        "| Gene set | Direction |\n|---|---|\n| Glycolysis | UP |\n| Adipogenesis | DOWN |",
        "| Tissue | Up | Down |\n|---|---|---|\n| thymus | | x |\n| liver | x | |",
        "| Tissue | NES |\n|---|---|\n| liver | 1.4 |\n| thymus | -1.9 |",
        "Tissue,Direction\nliver,UP\nthymus,DOWN",
        "Tissue\tDirection\nliver\tUP\nthymus\tDOWN",
        "**Answer:** *down*",
        "__Downregulated__",
        "### Direction\nDownregulated",
        "> Adipogenesis is downregulated.",
        "`DOWN`",
        "Answer: **DOWN**\n\n**Confidence:** 80%",
        "Tissue: thymus\nGene set: adipogenesis\nDirection: DOWN",
        "Thymus:\n  - adipogenesis: down\n  - glycolysis: up",
        "Liver\n- adipogenesis: up\nThymus\n- adipogenesis: down",
        '{"tissue": "thymus", "direction": "DOWN"}',
        "Final answer: \\boxed{DOWN}",
    ),
    "incorrect": (
        "- liver: DOWN\n- thymus: UP",
        "| Tissue | Direction |\n|---|---|\n| liver | DOWN |\n| thymus | UP |",
        "| Tissue | Up | Down |\n|---|---|---|\n| thymus | x | |\n| liver | | x |",
        "| Tissue | NES |\n|---|---|\n| liver | -1.4 |\n| thymus | 1.9 |",
        "Liver\n- adipogenesis: down\nThymus\n- adipogenesis: up",
    ),
    "no_claim": (
        "| Tissue | Direction |\n|---|---|\n| liver | DOWN |",
        "- liver: DOWN\n- kidney: DOWN",
        "| Tissue | Up | Down |\n|---|---|---|",
        "Direction: UP/DOWN",
    ),
}


@pytest.mark.parametrize(("answer", "verdict"), cases(LISTS))
def test_lists_tables_and_markdown_say_what_they_show(answer: str, verdict: str) -> None:
    found = judged(answer)
    assert found.verdict == verdict, (found.reason, found.claims)
