"""The lab: one Gradio app and the `assay` command over evals, training and hub."""
