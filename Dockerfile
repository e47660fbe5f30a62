# A server of mashbox. For the CPU:
#   docker build --tag mashbox .
# For CUDA, with the build of torch that PyPI has:
#   docker build --tag mashbox:cuda --build-arg TORCH_INDEX= .
# docs/operations.md tells how to run it; compose.yaml is an example.
FROM python:3.11-slim-bookworm AS build

# An index of PyTorch's own; empty for PyPI, whose Linux build is for CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/mashbox
WORKDIR /src
# torch has a layer of its own: a change of mashbox does not fetch it again.
COPY pyproject.toml ./
RUN torch="$(grep -o 'torch==[0-9.*]*' pyproject.toml)" \
    && /opt/mashbox/bin/pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$torch"
COPY . .
RUN /opt/mashbox/bin/pip install .

FROM python:3.11-slim-bookworm

# g++ compiles the native kernels for the CPU that the container runs on.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home mashbox \
    && install --directory --owner mashbox --group mashbox /var/cache/mashbox
COPY --from=build /opt/mashbox /opt/mashbox

ENV PATH=/opt/mashbox/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MASHBOX_CACHE_DIR=/var/cache/mashbox \
    HF_HOME=/var/cache/mashbox/hub
USER 10001:10001
VOLUME /var/cache/mashbox
EXPOSE 8000
# 503 while the model loads; the first start fetches it.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30m \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["mashbox"]
# Others can reach this address, so the server wants keys, as in MASHBOX_API_KEY.
CMD ["run", "--host", "0.0.0.0"]
