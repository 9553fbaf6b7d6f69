#!/bin/bash
# Pushes the image and the chart of dist/release (`make release`) to a registry, signs both there, and attests the image's SBOM and the
# provenance of both.
#
#   make publish REGISTRY=ghcr.io/OWNER    what the workflow of a tag does, with GH_TOKEN and the variables that GitHub sets
#   make publish                           a dry run with a registry on loopback, and a key of its own. It then takes all as users do:
#                                          it verifies the signatures, pulls the chart, runs the image's binary, and has krew install the plugin.
#
# It signs with the cosign in the PATH. Without one, a dry run only shows what it would sign.
set -euo pipefail
cd "$(dirname "$0")"
release=$(realpath ../dist/release)
registry=${1:-} dry=
[ -n "$registry" ] || dry=1
layout=("$release"/vmgroup-*-image.tar)
[ -f "${layout[0]}" ] || { echo "$release has no release: run make release first" >&2; exit 1; }
number=${layout[0]##*/vmgroup-} number=${number%-image.tar}
crane=$(go tool -n crane) helm=$(go tool -n helm)
work=$(mktemp -d) server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

say() { echo "=== $*"; }

if [ -n "$dry" ]; then
	export DOCKER_CONFIG=$work HELM_CONFIG_HOME=$work HELM_CACHE_HOME=$work HELM_DATA_HOME=$work COSIGN_PASSWORD= # nothing of the user's
	"$crane" registry serve --address 127.0.0.1:0 >"$work/log" 2>&1 &
	server=$!
	until port=$(grep -om 1 "[0-9]*$" "$work/log" 2>/dev/null); do
		kill -0 "$server" || { cat "$work/log"; exit 1; }
		sleep 0.2
	done
	registry=127.0.0.1:$port/Owner plain=(--plain-http) key=(--key "$work/cosign.key" --signing-config "$work/none.json" --trusted-root "$work/root.json")
	: "${GITHUB_REPOSITORY:=Owner/vmgroup}" "${GITHUB_REF:=refs/tags/v$number}" "${GITHUB_SHA:=$(git rev-parse HEAD)}"
	if command -v cosign >/dev/null; then
		(cd "$work" && cosign generate-key-pair && cosign signing-config create --out none.json && cosign trusted-root create --out root.json) 2>/dev/null
	fi
else
	echo "$GH_TOKEN" | "$crane" auth login "${registry%%/*}" --username "$GITHUB_ACTOR" --password-stdin
	echo "$GH_TOKEN" | "$helm" registry login "${registry%%/*}" --username "$GITHUB_ACTOR" --password-stdin
fi
registry=${registry,,} # names in a registry have no capitals
[ -n "$dry" ] || "$helm" show values "$release/vmgroup-$number.tgz" | grep -x "  repository: $registry/vmgroup" >/dev/null || {
	echo "the chart doesn't name the image $registry/vmgroup: run make release with IMAGE_NAME=$registry/vmgroup" >&2
	exit 1
}

signs() { # signs <command of cosign> <arguments>
	if [ -n "$dry" ] && ! command -v cosign >/dev/null; then
		echo "would run: cosign $*"
	else
		cosign "$1" --yes ${dry:+"${key[@]}"} "${@:2}"
	fi
}

# https://slsa.dev/spec/v1.0/provenance, in the form of https://actions.github.io/buildtypes/workflow/v1: which workflow built this of which commit.
jq -n --arg repository "${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_REPOSITORY" --arg ref "$GITHUB_REF" --arg commit "$GITHUB_SHA" \
	--arg run "${GITHUB_RUN_ID:-0}/attempts/${GITHUB_RUN_ATTEMPT:-0}" --arg event "${GITHUB_EVENT_NAME:-push}" --arg runner "${RUNNER_ENVIRONMENT:-self-hosted}" '{
	buildDefinition: {
		buildType: "https://actions.github.io/buildtypes/workflow/v1",
		externalParameters: {workflow: {ref: $ref, repository: $repository, path: ".github/workflows/release.yaml"}},
		internalParameters: {github: {event_name: $event, runner_environment: $runner}},
		resolvedDependencies: [{uri: "git+\($repository)@\($ref)", digest: {gitCommit: $commit}}]},
	runDetails: {builder: {id: "\($repository)/.github/workflows/release.yaml@\($ref)"}, metadata: {invocationId: "\($repository)/actions/runs/\($run)"}}
}' >"$work/provenance.json"

mkdir "$work/image"
tar -xf "${layout[0]}" -C "$work/image"
say "push $registry/vmgroup:v$number"
image=$("$crane" push "$work/image" "$registry/vmgroup:v$number")
say "push $registry/charts/vmgroup:$number"
"$helm" push ${dry:+"${plain[@]}"} "$release/vmgroup-$number.tgz" "oci://$registry/charts" >"$work/pushed" 2>&1 || { cat "$work/pushed"; exit 1; }
chart=$registry/charts/vmgroup@$(grep -o 'sha256:[0-9a-f]*' "$work/pushed")

for what in "$image" "$chart"; do
	say "sign $what"
	signs sign "$what"
	signs attest --type slsaprovenance1 --predicate "$work/provenance.json" "$what"
done
signs attest --type cyclonedx --predicate "$release/vmgroup-$number.cdx.json" "$image"
[ -n "$dry" ] || exit 0

if command -v cosign >/dev/null; then
	say "verify what is in the registry"
	verifies() { cosign "$1" --key "$work/cosign.pub" --insecure-ignore-tlog --trusted-root "$work/root.json" "${@:2}" >/dev/null 2>"$work/said" || { cat "$work/said"; return 1; }; }
	for what in "$image" "$chart"; do
		verifies verify "$what"
		verifies verify-attestation --type slsaprovenance1 "$what"
	done
	verifies verify-attestation --type cyclonedx "$image"
	if verifies verify-attestation --type cyclonedx "$chart" >/dev/null; then echo "cosign verifies an SBOM that was never attested" >&2; exit 1; fi
fi

say "take it as users do"
(cd "$release" && sha256sum -c --quiet SHA256SUMS)
"$crane" manifest "$registry/vmgroup:v$number" | jq -e '[.manifests[].platform | "\(.os)/\(.architecture)"] == ["linux/amd64", "linux/arm64"]' >/dev/null
"$crane" export --platform "linux/$(go env GOHOSTARCH)" "$image" - | tar -xf - -C "$work" vmgroup
"$work/vmgroup" version
"$helm" pull "${plain[@]}" "oci://$registry/charts/vmgroup" --version "$number" --destination "$work" >/dev/null
cmp "$work/vmgroup-$number.tgz" "$release/vmgroup-$number.tgz"
"$helm" show values "$work/vmgroup-$number.tgz" | grep -x '  repository: [a-z0-9./:-]*vmgroup'
KREW_ROOT=$work/krew go run "$KREW" install --no-update-index --manifest "$release/vmgroup.yaml" \
	--archive "$release/kubectl-vmgroup-$number-$(go env GOHOSTOS)-$(go env GOHOSTARCH).tar.gz" </dev/null 2>"$work/said" || { cat "$work/said"; exit 1; }
"$work/krew/bin/kubectl-vmgroup" --version
say "would run: gh release create v$number, with the files"
ls "$release"
