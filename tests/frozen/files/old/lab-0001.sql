BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE answers (
	id TEXT NOT NULL, 
	asked_at DATETIME NOT NULL, 
	session TEXT NOT NULL, 
	question TEXT NOT NULL, 
	example_id TEXT, 
	stage TEXT NOT NULL, 
	text TEXT NOT NULL, 
	finish_reason TEXT NOT NULL, 
	chain TEXT NOT NULL, 
	stage_sha256 TEXT NOT NULL, 
	system_prompt TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	max_new_tokens BIGINT NOT NULL, 
	temperature FLOAT NOT NULL, 
	dtype TEXT NOT NULL, 
	verdict JSON, 
	PRIMARY KEY (id)
);
INSERT INTO "answers" VALUES('l0ann','2026-01-02 12:00:00.000000','s1','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','sft','Hindlimb unloading (HU) dominates in heart.
Answer: HU
Confidence: 90%','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16','{"verdict": "correct", "reason": "HU, as the data say", "claims": [{"subject": "answer line", "says": "HU", "start": 52, "end": 54, "about": "answer", "is_denied": false}], "confidence": {"value": 0.9, "status": "stated", "quote": "Confidence: 90%"}, "scores": {"V1": 1.0, "V2": null, "V3": 1.0, "V4": 0.99}, "reward": 0.9981690140845071, "answer": "HU", "read_by": "answer"}');
INSERT INTO "answers" VALUES('r0ann','2026-01-02 12:00:00.000000','s1','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','grpo','Ionizing radiation.
Answer: IR
Confidence: 70%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16','{"verdict": "incorrect", "reason": "it says IR; the data say HU", "claims": [{"subject": "answer line", "says": "IR", "start": 28, "end": 30, "about": "answer", "is_denied": false}], "confidence": {"value": 0.7, "status": "stated", "quote": "Confidence: 70%"}, "scores": {"V1": 0.0, "V2": null, "V3": 0.0, "V4": 0.51}, "reward": 0.09338028169014084, "answer": "IR", "read_by": "answer"}');
INSERT INTO "answers" VALUES('l1ann','2026-01-02 12:00:00.000000','s1','Is MYC up in liver?',NULL,'sft','I do not know.','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('r1ann','2026-01-02 12:00:00.000000','s1','Is MYC up in liver?',NULL,'grpo','MYC is up.
Confidence: 80%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('l2ann','2026-01-02 12:00:00.000000','s1','What does kaempferol do?',NULL,'sft','It may be so.
Confidence: 50%','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('r2ann','2026-01-02 12:00:00.000000','s1','What does kaempferol do?',NULL,'grpo','It lowers stress; see "Fig. 2".
- point
Confidence: 20%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('l0bob','2026-01-02 12:00:00.000000','s1','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','sft','Hindlimb unloading (HU) dominates in heart.
Answer: HU
Confidence: 90%','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16','{"verdict": "correct", "reason": "HU, as the data say", "claims": [{"subject": "answer line", "says": "HU", "start": 52, "end": 54, "about": "answer", "is_denied": false}], "confidence": {"value": 0.9, "status": "stated", "quote": "Confidence: 90%"}, "scores": {"V1": 1.0, "V2": null, "V3": 1.0, "V4": 0.99}, "reward": 0.9981690140845071, "answer": "HU", "read_by": "answer"}');
INSERT INTO "answers" VALUES('r0bob','2026-01-02 12:00:00.000000','s1','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','grpo','Ionizing radiation.
Answer: IR
Confidence: 70%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16','{"verdict": "incorrect", "reason": "it says IR; the data say HU", "claims": [{"subject": "answer line", "says": "IR", "start": 28, "end": 30, "about": "answer", "is_denied": false}], "confidence": {"value": 0.7, "status": "stated", "quote": "Confidence: 70%"}, "scores": {"V1": 0.0, "V2": null, "V3": 0.0, "V4": 0.51}, "reward": 0.09338028169014084, "answer": "IR", "read_by": "answer"}');
INSERT INTO "answers" VALUES('l1bob','2026-01-02 12:00:00.000000','s1','Is MYC up in liver?',NULL,'sft','I do not know.','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('r1bob','2026-01-02 12:00:00.000000','s1','Is MYC up in liver?',NULL,'grpo','MYC is up.
Confidence: 80%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('l2bob','2026-01-02 12:00:00.000000','s1','What does kaempferol do?',NULL,'sft','It may be so.
Confidence: 50%','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('r2bob','2026-01-02 12:00:00.000000','s1','What does kaempferol do?',NULL,'grpo','It lowers stress; see "Fig. 2".
- point
Confidence: 20%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('l0cy','2026-01-02 12:00:00.000000','s1','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','sft','Hindlimb unloading (HU) dominates in heart.
Answer: HU
Confidence: 90%','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16','{"verdict": "correct", "reason": "HU, as the data say", "claims": [{"subject": "answer line", "says": "HU", "start": 52, "end": 54, "about": "answer", "is_denied": false}], "confidence": {"value": 0.9, "status": "stated", "quote": "Confidence: 90%"}, "scores": {"V1": 1.0, "V2": null, "V3": 1.0, "V4": 0.99}, "reward": 0.9981690140845071, "answer": "HU", "read_by": "answer"}');
INSERT INTO "answers" VALUES('r0cy','2026-01-02 12:00:00.000000','s1','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','grpo','Ionizing radiation.
Answer: IR
Confidence: 70%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16','{"verdict": "incorrect", "reason": "it says IR; the data say HU", "claims": [{"subject": "answer line", "says": "IR", "start": 28, "end": 30, "about": "answer", "is_denied": false}], "confidence": {"value": 0.7, "status": "stated", "quote": "Confidence: 70%"}, "scores": {"V1": 0.0, "V2": null, "V3": 0.0, "V4": 0.51}, "reward": 0.09338028169014084, "answer": "IR", "read_by": "answer"}');
INSERT INTO "answers" VALUES('l1cy','2026-01-02 12:00:00.000000','s1','Is MYC up in liver?',NULL,'sft','I do not know.','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('r1cy','2026-01-02 12:00:00.000000','s1','Is MYC up in liver?',NULL,'grpo','MYC is up.
Confidence: 80%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('l2cy','2026-01-02 12:00:00.000000','s1','What does kaempferol do?',NULL,'sft','It may be so.
Confidence: 50%','stop','embedded','sha-of-sft','Answer briefly.',7,96,0.0,'bfloat16',NULL);
INSERT INTO "answers" VALUES('r2cy','2026-01-02 12:00:00.000000','s1','What does kaempferol do?',NULL,'grpo','It lowers stress; see "Fig. 2".
- point
Confidence: 20%','stop','embedded','sha-of-grpo','Answer briefly.',7,96,0.0,'bfloat16',NULL);
CREATE TABLE comparisons (
	id TEXT NOT NULL, 
	voted_at DATETIME NOT NULL, 
	rater TEXT NOT NULL, 
	question TEXT NOT NULL, 
	example_id TEXT, 
	left_answer TEXT NOT NULL, 
	right_answer TEXT NOT NULL, 
	left_stage TEXT NOT NULL, 
	right_stage TEXT NOT NULL, 
	choice TEXT NOT NULL, 
	voided_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(left_answer) REFERENCES answers (id), 
	FOREIGN KEY(right_answer) REFERENCES answers (id)
);
INSERT INTO "comparisons" VALUES('vote-l0ann-r0ann','2026-01-02 12:01:00.000000','db052e27f62cfaa6bac462a82bf562b8','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','l0ann','r0ann','sft','grpo','left',NULL);
INSERT INTO "comparisons" VALUES('vote-l1ann-r1ann','2026-01-02 12:02:00.000000','db052e27f62cfaa6bac462a82bf562b8','Is MYC up in liver?',NULL,'l1ann','r1ann','sft','grpo','right',NULL);
INSERT INTO "comparisons" VALUES('vote-l2ann-r2ann','2026-01-02 12:03:00.000000','db052e27f62cfaa6bac462a82bf562b8','What does kaempferol do?',NULL,'l2ann','r2ann','sft','grpo','tie',NULL);
INSERT INTO "comparisons" VALUES('vote-l0bob-r0bob','2026-01-02 12:04:00.000000','2b23cd80afb6a2f1a41a657b03da8e7d','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','l0bob','r0bob','sft','grpo','left',NULL);
INSERT INTO "comparisons" VALUES('vote-l1bob-r1bob','2026-01-02 12:05:00.000000','2b23cd80afb6a2f1a41a657b03da8e7d','Is MYC up in liver?',NULL,'l1bob','r1bob','sft','grpo','left','2026-01-03 12:00:00.000000');
INSERT INTO "comparisons" VALUES('vote-l2bob-r2bob','2026-01-02 12:06:00.000000','2b23cd80afb6a2f1a41a657b03da8e7d','What does kaempferol do?',NULL,'l2bob','r2bob','sft','grpo','both_bad',NULL);
INSERT INTO "comparisons" VALUES('vote-l0cy-r0cy','2026-01-02 12:07:00.000000','ef1f8af7a88d916c57ecc5dc8bbefb47','Name the stressor that dominates in heart: unloading or radiation?','kmp/test/dominant_stressor/heart','l0cy','r0cy','sft','grpo','right',NULL);
INSERT INTO "comparisons" VALUES('vote-l1cy-r1cy','2026-01-02 12:08:00.000000','ef1f8af7a88d916c57ecc5dc8bbefb47','Is MYC up in liver?',NULL,'l1cy','r1cy','sft','grpo','right',NULL);
INSERT INTO "comparisons" VALUES('vote-l2cy-r2cy','2026-01-02 12:09:00.000000','ef1f8af7a88d916c57ecc5dc8bbefb47','What does kaempferol do?',NULL,'l2cy','r2cy','sft','grpo','tie',NULL);
CREATE TABLE settings (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "settings" VALUES('rater_salt','35db0d5a84a475d16f1835ac1137e72bc8c75769f6abe3703be7bd4fb18e9b18');
CREATE INDEX answers_by_session ON answers (session, asked_at);
CREATE UNIQUE INDEX one_vote_per_pair_and_rater ON comparisons (left_answer, right_answer, rater) WHERE voided_at IS NULL;
CREATE INDEX comparisons_by_time ON comparisons (voted_at);
COMMIT;
