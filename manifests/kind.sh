#!/bin/sh
# From nothing to a running group: a kind cluster (https://kind.sigs.k8s.io) with Metacontroller and VmGroup, which has an
# embedded vCenter. Needs kind, kubectl, git (kubectl fetches Metacontroller's manifests with it), make (to build the image), and docker with a
# running daemon.
#
#   manifests/kind.sh            in a checkout, with the image that `make image` builds
#   manifests/kind.sh delete     removes the cluster
set -eu
cluster=${CLUSTER:-vmgroup}
image=${IMAGE:-vmgroup:dev}
metacontroller=${METACONTROLLER_VERSION:-v4.17.2}
cd "$(dirname "$0")/.."

for program in kind kubectl git make docker; do
	command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 1; }
done
if [ "${1:-}" = delete ]; then
	exec kind delete cluster --name "$cluster"
fi
docker info >/dev/null 2>&1 || { echo "docker's daemon does not answer" >&2; exit 1; }

docker image inspect "$image" >/dev/null 2>&1 || make image BUILDER=docker IMAGE="$image"
kind get clusters 2>/dev/null | grep -qx "$cluster" || kind create cluster --name "$cluster" --wait 3m
kubectl() { command kubectl --context "kind-$cluster" "$@"; }
kind load docker-image --name "$cluster" "$image"

# Metacontroller's own production manifests, at one version.
kubectl apply -k "https://github.com/metacontroller/metacontroller/manifests/production?ref=$metacontroller"
kubectl -n metacontroller rollout status statefulset/metacontroller --timeout 3m

kubectl kustomize manifests/overlays/simulator | sed "s|image: vmgroup:dev\$|image: $image|" | kubectl apply -f -
kubectl -n vmgroup-system rollout status deployment/vmgroup --timeout 3m
kubectl apply -f manifests/samples/vmgroup.yaml
kubectl wait --for=jsonpath='{.status.phase}'=RUNNING vg/web --timeout 3m
kubectl get vg
