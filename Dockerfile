# Two images; the second has all of the first, and Spark and Java:
#
#   docker build --target acker -t kafka-acker .            acker workers, spouts and bolts, and the command itself
#   docker build --target spark -t kafka-acker-spark .      Spark's master, workers and drivers, and the embedded broker
#   docker run --rm --read-only --tmpfs /tmp kafka-acker worker --topology words --bootstrap-servers kafka:9092
#
# The build needs neither BuildKit nor arguments. For a mirror, pass --build-arg PIP_INDEX_URL=… and --build-arg
# MAVEN_REPOSITORY=…; for certificates of your own, --build-arg PYTHON_IMAGE=… with a base image that trusts them.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${PYTHON_IMAGE} AS build
ARG PIP_INDEX_URL=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
RUN python -m venv /opt/acker
ENV PATH=/opt/acker/bin:$PATH
WORKDIR /build
# Dependencies change seldom: an earlier layer keeps them cached.
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
      print(*project['dependencies'], sep='\n')" > requirements.txt \
 && pip install -q -r requirements.txt -c constraints.txt

FROM build AS installed
COPY . .
RUN pip install -q --no-deps . \
 && pip uninstall -q -y pip setuptools

FROM ${PYTHON_IMAGE} AS base
RUN useradd --uid 10001 --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin acker \
 && install -d -o acker -g acker /app /var/cache/numba /var/lib/word-count /var/lib/checkpoints
# The kernels are compiled for a generic processor, so that the image runs on any machine of its architecture. Numba
# needs a writable cache: the volume, which starts with the kernels that are compiled here.
ENV PATH=/opt/acker/bin:$PATH \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/var/cache/numba NUMBA_CPU_NAME=generic \
    ACKER_METRICS__PORT=9464
# Mount your own modules here.
WORKDIR /app
EXPOSE 9464
# By default workers, spouts and bolts serve their metrics on this port, inside the container only; to other machines
# with ACKER_METRICS__HOST=0.0.0.0. Containers without metrics, such as Spark's, have their health checks in the compose file.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/$ACKER_METRICS__PORT && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["acker"]
CMD ["--help"]

FROM base AS acker
COPY --from=installed /opt/acker /opt/acker
# Numba's cache depends on the source file's modification time, whose nanoseconds some copies of a layer lose.
RUN kernels="$(python -c 'import importlib.util; print(importlib.util.find_spec("acker_worker.kernels").origin)')" \
 && touch -d "@$(stat -c %Y "$kernels")" "$kernels"
USER acker
RUN python -c "from acker_worker.ledger import warm_up; warm_up()"
VOLUME /var/cache/numba

FROM build AS spark-installed
ARG MAVEN_REPOSITORY=
RUN python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
      print(*extras['local'], *extras['spark'], sep='\n')" > requirements.txt \
 && pip install -q -r requirements.txt -c constraints.txt
# Spark's packages are copied to its own jars, so that a job downloads nothing when it starts.
COPY local_kafka/maven.py deploy/spark-jars.txt ./
RUN python maven.py spark-jars.txt \
      "$(python -c 'import pyspark, pathlib; print(pathlib.Path(pyspark.__file__).with_name("jars"))')" "$MAVEN_REPOSITORY"
COPY . .
RUN pip install -q --no-deps . \
 && pip uninstall -q -y pip setuptools

FROM base AS spark
RUN apt-get update -q \
 && apt-get install -q -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY --from=spark-installed /opt/acker /opt/acker
ENV JAVA_HOME=/usr/lib/jvm/default-runtime
# The directory of Java has the architecture in its name.
RUN ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" "$JAVA_HOME" \
 && kernels="$(python -c 'import importlib.util; print(importlib.util.find_spec("acker_worker.kernels").origin)')" \
 && touch -d "@$(stat -c %Y "$kernels")" "$kernels"
USER acker
RUN python -c "from acker_worker.ledger import warm_up; warm_up()"
VOLUME /var/cache/numba
