#!/bin/sh
# Prints what the install with your vCenter needs before anything else: the namespace, vCenter's credentials, and the tokens and
# the certificates of the hooks (for ten years, from an authority that signs nothing else and is forgotten). Needs openssl.
#
#   VC_HOST=vc.example.com VC_USER=… VC_PASS=… manifests/secrets.sh | kubectl create -f -
#
# For the install of another vCenter (docs/vcenters.md), set NAMESPACE; VC_HOST is in its overlay.
#
# kubectl refuses it if these Secrets exist: SECURITY.md says how to change keys.
set -eu
: "${VC_USER:?is the account in vCenter}" "${VC_PASS:?is its password}"
namespace=${NAMESPACE:-vmgroup-system}
[ "$namespace" != vmgroup-system ] || : "${VC_HOST:?is the address of vCenter}"
command -v openssl >/dev/null || { echo "openssl is not installed" >&2; exit 1; }

umask 077
keys=$(mktemp -d)
trap 'rm -rf "$keys"' EXIT
request() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "$@" 2>/dev/null; }
sign() { # sign <name> <extension...>: a certificate for the request of that name
	name=$1
	shift
	printf '%s\n' basicConstraints=critical,CA:FALSE "$@" >"$keys/$name.ext"
	openssl x509 -req -in "$keys/$name.csr" -CA "$keys/ca.crt" -CAkey "$keys/ca.key" -CAcreateserial -days 3650 \
		-extfile "$keys/$name.ext" -out "$keys/$name.crt" 2>/dev/null
}
request -x509 -days 3650 -subj /CN=vmgroup-authority -keyout "$keys/ca.key" -out "$keys/ca.crt"
request -subj /CN=vmgroup -keyout "$keys/server.key" -out "$keys/server.csr"
sign server extendedKeyUsage=serverAuth "subjectAltName=DNS:vmgroup.$namespace.svc,DNS:vmgroup.$namespace"
request -subj /CN=metacontroller -keyout "$keys/client.key" -out "$keys/client.csr"
sign client extendedKeyUsage=clientAuth
for token in token reader; do openssl rand -hex 32 | tr -d '\n' >"$keys/$token"; done

file() { printf '  %s: %s\n' "$1" "$(openssl base64 -A -in "$keys/$2")"; }
text() { printf '  %s: %s\n' "$1" "$(printf %s "$2" | openssl base64 -A)"; }
secret() { # secret <name> <type>: its head
	cat <<-END
		---
		apiVersion: v1
		kind: Secret
		type: $2
		metadata:
		  name: $1
		  namespace: $namespace
		data:
	END
}
cat <<END
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
END
secret vc-creds Opaque
[ -z "${VC_HOST:-}" ] || text VC_HOST "$VC_HOST"
text VC_USER "$VC_USER"
text VC_PASS "$VC_PASS"
secret vmgroup-hook-token Opaque
file token token
secret vmgroup-reader-token Opaque
file token reader
secret vmgroup-tls kubernetes.io/tls
file ca.crt ca.crt
file tls.crt server.crt
file tls.key server.key
secret vmgroup-hook-client kubernetes.io/tls
file ca.crt ca.crt
file tls.crt client.crt
file tls.key client.key
