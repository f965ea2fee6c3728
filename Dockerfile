# A group's own lab: docs/people.md ("In a container"). On a GPU machine: --build-arg TORCH_INDEX= and --gpus all.
FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN useradd --create-home --uid 1000 assay && install --directory --owner assay /app /data
USER 1000
WORKDIR /app
COPY --chown=assay requirements.txt requirements-embedded.txt constraints.txt ./
RUN python3 -m venv .venv \
    && .venv/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt -r requirements.txt \
    && .venv/bin/pip install --no-cache-dir --no-deps -r requirements-embedded.txt
COPY --chown=assay . .
RUN .venv/bin/pip install --no-cache-dir --no-deps --editable .
ENV ASSAY_DATABASE_URL=sqlite:////data/assay.db ASSAY_CACHE=/data/cache ASSAY_RUNS=/data/runs \
    ASSAY_CONFIGS=/data/configs ASSAY_PEOPLE=/data/people
VOLUME /data
EXPOSE 7860
ENTRYPOINT ["/app/.venv/bin/assay"]
CMD ["lab", "--host", "0.0.0.0", "--port", "7860"]
