#!/bin/bash
# make cluster: a two-node cluster with this build's images on both nodes, charts installed, a model server and Jaeger. docs/quickstart.md goes on from here.
set -euo pipefail
cd "$(dirname "$0")/.."
model=$(scripts/model.sh smollm2)
images/build.sh fixture
e2e/cluster/up.sh
in=e2e/cluster/in.sh
for image in operator router agent fixture; do for node in n1 n2; do NODE=$node $in ctr -n k8s.io images import "target/images/$image.tar" > /dev/null; done; done
setsid nohup $in jaeger --config e2e/cluster/jaeger.yaml > target/jaeger.log 2>&1 < /dev/null &
tag=$(git rev-parse --short=12 HEAD)
sed "s|\${TAG}|$tag|; s|\${MODELS}|$(dirname "$model")|" e2e/manifests/models.yaml | $in kubectl apply -f - > /dev/null
cat <<T
The cluster is up. A shell in it, with kubectl, helm and curl:

    $in bash

This build's images have the tag $tag; Jaeger's query API is http://10.77.0.1:16686, its collector http://10.77.0.1:4318.
T
