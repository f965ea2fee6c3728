"""What a card cites: this project, and the papers behind the methods that were used."""

PROJECT = """@software{assay,
  title = {Assay: train, question, judge and publish biology language models},
  author = {{The Assay authors}},
  license = {Apache-2.0}
}"""
LORA = """@article{hu2021lora,
  title = {LoRA: Low-Rank Adaptation of Large Language Models},
  author = {Hu, Edward J. and Shen, Yelong and Wallis, Phillip and Allen-Zhu, Zeyuan and Li, Yuanzhi
            and Wang, Shean and Wang, Lu and Chen, Weizhu},
  journal = {arXiv:2106.09685},
  year = {2021}
}"""
DPO = """@article{rafailov2023dpo,
  title = {Direct Preference Optimization: Your Language Model is Secretly a Reward Model},
  author = {Rafailov, Rafael and Sharma, Archit and Mitchell, Eric and Ermon, Stefano
            and Manning, Christopher D. and Finn, Chelsea},
  journal = {arXiv:2305.18290},
  year = {2023}
}"""
GRPO = """@article{shao2024deepseekmath,
  title = {DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models},
  author = {Shao, Zhihong and Wang, Peiyi and Zhu, Qihao and Xu, Runxin and Song, Junxiao and Bi, Xiao
            and Zhang, Haowei and Zhang, Mingchuan and Li, Y. K. and Wu, Y. and Guo, Daya},
  journal = {arXiv:2402.03300},
  year = {2024}
}"""
METHODS = {"sft": (), "dpo": (DPO,), "grpo": (GRPO,), "review": (), "refiner": (GRPO,)}
"""Papers of a stage's own method."""


def citations(stage: str) -> str:
    """Return the BibTeX entries for an adapter of this kind of stage."""
    return "\n\n".join((PROJECT, LORA, *METHODS.get(stage, ())))
