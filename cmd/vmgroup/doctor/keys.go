package doctor

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	tenMinutes = 10 * time.Minute
	// soon is how long before its end a certificate is mentioned. The alert VmGroupCertificateEnds has a week.
	soon = 14 * 24 * time.Hour
)

// secretRead is what reading a Secret gave.
type secretRead struct {
	*secret
	err error
}

// data returns a key of a Secret of a namespace; without a key, it only says whether the Secret exists.
func (x *examination) data(namespace, name, key string) ([]byte, error) {
	at := namespace + "/" + name
	if x.secrets == nil {
		x.secrets = map[string]secretRead{}
	}
	r, known := x.secrets[at]
	if !known {
		var found bool
		if r.secret, found, r.err = one[secret](x.cluster, "secret", name, "--namespace", namespace); r.err == nil && !found {
			r.err = missing("there is no Secret " + at)
		}
		x.secrets[at] = r
	}
	if r.err != nil {
		return nil, r.err
	}
	if key != "" && len(r.Data[key]) == 0 {
		return nil, missing(fmt.Sprintf("the Secret %s has no key %s", at, key))
	}
	return r.Data[key], nil
}

// missing is what doesn't exist, in contrast to what can't be read.
type missing string

func (m missing) Error() string { return string(m) }

// lacking says that a check fails if something doesn't exist, and otherwise that it can't be made.
func (x *examination) lacking(check string, err error, todo string) {
	if gone := missing(""); errors.As(err, &gone) {
		x.fail(check, err.Error(), todo)
		return
	}
	x.unseen(check, err)
}

const secretsTodo = "Create it (manifests/README.md#the-secrets-of-the-hooks)"

// keys checks the Secrets of the server and of Metacontroller, and the certificates' ends.
func (x *examination) keys() {
	x.podSecrets()
	if x.controller == nil || x.controller.address().Scheme != "https" {
		return
	}
	config := x.controller.config()
	if config == nil {
		x.fail("the CompositeController has an endpointConfig for its hooks", "no host of endpointConfigs equals that of the hooks' URLs, "+x.controller.address().Host, "Set the host to it, with the port: without an entry, Metacontroller presents no token and trusts only the system's authorities")
		return
	}
	authority := x.authority(config)
	x.serverCertificate(authority)
	x.token(config)
	x.clientCertificate(config)
}

// podSecrets checks that what a pod can't start without exists.
func (x *examination) podSecrets() {
	const check = "the Secrets that the server mounts exist"
	if x.deployment == nil {
		return
	}
	fine := true
	wants := func(name, key string) bool {
		_, err := x.data(x.Namespace, name, key)
		if err != nil {
			fine = false
			x.lacking(check, err, secretsTodo+": until then, no pod starts")
		}
		return err == nil
	}
	spec := &x.deployment.Spec.Template.Spec
	for _, v := range spec.Volumes {
		if v.Secret == nil || v.Secret.Optional {
			continue
		}
		if !wants(v.Secret.SecretName, "") {
			continue
		}
		for _, item := range v.Secret.Items {
			wants(v.Secret.SecretName, item.Key)
		}
	}
	if fine {
		x.ok(check)
	}
}

// authority returns the certificates with which Metacontroller verifies the server; nil if they are unknown.
func (x *examination) authority(config *endpointConfig) *x509.CertPool {
	const check = "Metacontroller trusts an authority for the hooks"
	if config.CABundle == nil || config.CABundle.SecretRef == nil {
		if config.CABundle != nil && config.CABundle.ConfigMapRef != nil {
			x.unseen(check, errors.New("caBundle names a ConfigMap, which is not read here"))
		} else {
			x.warn(check, "endpointConfigs has no caBundle, so only the system's authorities count", "Name the Secret "+x.Name+"-hook-client in caBundle")
		}
		return nil
	}
	ref := config.CABundle.SecretRef
	text, err := x.data(ref.Namespace, ref.Name, ref.Key)
	if err != nil {
		x.lacking(check, err, secretsTodo+", and restart Metacontroller")
		return nil
	}
	certs, err := parse(text)
	if err != nil {
		x.fail(check, fmt.Sprintf("%s of the Secret %s/%s: %s", ref.Key, ref.Namespace, ref.Name, err), secretsTodo)
		return nil
	}
	x.ends("the hooks' authority", certs[0])
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}

// serverCertificate checks that the server's certificate has a key, a name and an end that Metacontroller accepts.
func (x *examination) serverCertificate(authority *x509.CertPool) {
	const what = "the server's certificate"
	name := x.Name + "-tls"
	cert, err := x.data(x.Namespace, name, "tls.crt")
	var key []byte
	if err == nil {
		key, err = x.data(x.Namespace, name, "tls.key")
	}
	if err != nil {
		x.lacking(what+" can be read", err, secretsTodo)
		return
	}
	certs, err := parse(cert)
	if err == nil {
		_, err = tls.X509KeyPair(cert, key)
	}
	if err != nil {
		x.fail(what+" and its key fit together", err.Error(), "Correct the Secret "+x.Namespace+"/"+name+": until then the server keeps the former pair, and doesn't start without one")
		return
	}
	x.ends(what, certs[0])
	if authority == nil {
		return
	}
	trusted := "Metacontroller trusts " + what
	options := x509.VerifyOptions{Roots: authority, Intermediates: x509.NewCertPool(), DNSName: x.controller.address().Hostname(),
		CurrentTime: certs[0].NotBefore.Add(time.Second)} // the end has a check of its own
	for _, c := range certs[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := certs[0].Verify(options); err != nil {
		x.fail(trusted, err.Error(), "Issue it for "+options.DNSName+", from the authority in the CompositeController's caBundle (SECURITY.md#change-keys)")
		return
	}
	x.ok("%s", trusted)
}

// token checks that the server accepts the token that Metacontroller presents.
func (x *examination) token(config *endpointConfig) {
	const check = "the server accepts Metacontroller's token"
	if config.Authorization == nil || config.Authorization.SecretRef == nil {
		if x.deployment != nil && x.deployment.Spec.Template.Spec.env("VMGROUP_TOKEN_FILE") != "" {
			x.fail(check, "the server wants a token, and the CompositeController's endpointConfig names none", "Name the Secret "+x.Name+"-hook-token in its authorization")
		}
		return
	}
	ref := config.Authorization.SecretRef
	token, err := x.data(ref.Namespace, ref.Name, ref.Key)
	if err != nil {
		x.lacking(check, err, secretsTodo+", and restart Metacontroller")
		return
	}
	name := x.Name + "-hook-token"
	first, err := x.data(x.Namespace, name, "token")
	next, _ := x.data(x.Namespace, name, "token-next")
	if err != nil && next == nil {
		x.lacking(check, err, secretsTodo)
		return
	}
	if token = bytes.TrimSpace(token); !bytes.Equal(token, bytes.TrimSpace(first)) && !bytes.Equal(token, bytes.TrimSpace(next)) {
		x.fail(check, fmt.Sprintf("%s of the Secret %s/%s is none of the tokens in %s/%s", ref.Key, ref.Namespace, ref.Name, x.Namespace, name), "Make them equal (SECURITY.md#change-keys)")
		return
	}
	x.ok(check)
}

// clientCertificate checks the certificate that Metacontroller presents.
func (x *examination) clientCertificate(config *endpointConfig) {
	const what = "Metacontroller's certificate"
	wanted := x.deployment != nil && x.deployment.Spec.Template.Spec.env("VMGROUP_CLIENT_CA_FILE") != ""
	if config.ClientTLS == nil {
		if wanted {
			x.fail("Metacontroller presents a certificate", "the server requires one, and the CompositeController's endpointConfig has no clientTLS", "Add it (manifests/components/mtls)")
		}
		return
	}
	ref := config.ClientTLS
	text, err := x.data(ref.SecretRef.Namespace, ref.SecretRef.Name, or(ref.CertKey, "tls.crt"))
	if err != nil {
		x.lacking(what+" can be read", err, secretsTodo+", and restart Metacontroller")
		return
	}
	certs, err := parse(text)
	if err != nil {
		x.fail(what+" can be read", err.Error(), secretsTodo)
		return
	}
	x.ends(what, certs[0])
	if !wanted {
		return
	}
	authority, err := x.data(x.Namespace, x.Name+"-tls", "ca.crt")
	if err != nil {
		x.lacking("the server trusts "+what, err, secretsTodo)
		return
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	if _, err := certs[0].Verify(x509.VerifyOptions{Roots: pool, CurrentTime: certs[0].NotBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		x.fail("the server trusts "+what, err.Error(), "Issue it from the authority in ca.crt of the Secret "+x.Name+"-tls (SECURITY.md#change-keys)")
		return
	}
	x.ok("the server trusts %s", what)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// ends checks the times of a certificate.
func (x *examination) ends(what string, c *x509.Certificate) {
	check := what + " is valid for two more weeks"
	until := c.NotAfter.UTC().Format(time.DateTime) + " UTC"
	const todo = "Renew it (SECURITY.md#change-keys)"
	switch {
	case x.Now.After(c.NotAfter):
		x.fail(check, "it expired at "+until+", so the calls of the hooks fail", todo)
	case x.Now.Before(c.NotBefore):
		x.fail(check, "it is not valid before "+c.NotBefore.UTC().Format(time.DateTime)+" UTC", "Correct the clock, or renew it (SECURITY.md#change-keys)")
	case c.NotAfter.Sub(x.Now) < min(soon, c.NotAfter.Sub(c.NotBefore)/3):
		x.warn(check, "it expires at "+until, todo)
	default:
		x.ok("%s (until %s)", check, until)
	}
}

// parse returns the certificates of a PEM text.
func parse(text []byte) (certs []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("it has no PEM certificate")
	}
	return slices.Clip(certs), nil
}
