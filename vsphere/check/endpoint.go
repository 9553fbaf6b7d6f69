package check

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// expiresSoon is the remaining validity at which an expiring certificate is reported.
	expiresSoon = 30 * 24 * time.Hour
	// skewed is the difference between vCenter's clock and this machine's that is a warning, and skewedMuch one that is a failure: vCenter's Single
	// Sign-On tolerates 10 minutes (the default "Clock Tolerance" of its token policy), and with a larger difference people can't compare
	// the times in stamps, certificates and vCenter's events.
	skewed, skewedMuch = 30 * time.Second, 10 * time.Minute
)

// hostPort returns vCenter's address.
func (c *checker) hostPort() (host, port string) {
	u := c.parts.Client.Endpoint()
	if port = u.Port(); port == "" {
		if port = "443"; u.Scheme == "http" {
			port = "80"
		}
	}
	return u.Hostname(), port
}

// proxy returns the proxy for vCenter, or "".
func (c *checker) proxy() string {
	p, err := http.ProxyFromEnvironment(&http.Request{URL: c.parts.Client.Endpoint()})
	if err != nil || p == nil {
		return ""
	}
	return p.Host // without its user and password
}

// address checks that vCenter's name resolves and that its port is open.
func (c *checker) address(ctx context.Context) {
	const check = "address"
	host, port := c.hostPort()
	if p := c.proxy(); p != "" {
		c.add(check, Skip, fmt.Sprintf("%s is reached through the proxy %s", host, p), "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, session.DialTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		c.add(check, Fail, fmt.Sprintf("the name %q cannot be resolved", host), "correct --host (VC_HOST) or this machine's DNS configuration")
		return
	}
	conn, err := c.parts.Client.Transport().DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		c.add(check, Fail, fmt.Sprintf("nothing answers at %s port %s (%v)", host, port, err), "check that vCenter is running and that no firewall or NetworkPolicy blocks this machine")
		return
	}
	_ = conn.Close()
	if found[0] != host {
		host += " resolves to " + vcfault.Listing(found)
	}
	c.ok(check, "%s, port %s is open", host, port)
}

// certificate checks vCenter's certificate. Without a trusted one, the password is not sent.
func (c *checker) certificate(ctx context.Context) {
	const check = "certificate"
	trusted, err := c.parts.Config.TLS(c.parts.Client.Endpoint().Hostname())
	switch {
	case err != nil: // a file vanished after the settings were read
		c.add(check, Fail, err.Error(), "correct the setting")
		return
	case c.parts.Client.Endpoint().Scheme == "http":
		c.add(check, Warn, "none: the password is sent unencrypted", "use https://")
		return
	case c.proxy() != "":
		c.add(check, Skip, "behind a proxy, it is verified at login", "")
		return
	}
	leaf, err := c.handshake(ctx, trusted)
	if err != nil {
		c.untrusted(ctx, err)
		return
	}
	by := "the system's CA certificates"
	if c.parts.Config.Thumbprint != "" {
		by = "its thumbprint"
	} else if c.parts.Config.CAFile != "" {
		by = "the CA certificates in " + c.parts.Config.CAFile
	}
	left := leaf.NotAfter.Sub(c.now())
	seen := fmt.Sprintf("verified by %s; %s", by, describe(leaf))
	switch {
	case c.parts.Config.Insecure:
		c.add(check, Warn, "not verified (--insecure); "+describe(leaf), "anyone on the network path can read the password: use --ca-file or --thumbprint "+vcfault.Thumbprint(leaf))
	case left <= 0: // an expired certificate is trusted if --thumbprint names it
		c.add(check, Warn, seen+", which has expired", "renew it and set --thumbprint to the new thumbprint")
	case left < expiresSoon:
		c.add(check, Warn, fmt.Sprintf("%s, in %d days", seen, int(left.Hours()/24)), "renew it in time; if you use --thumbprint, update it then")
	default:
		c.ok(check, "%s", seen)
	}
}

func describe(cert *x509.Certificate) string {
	return fmt.Sprintf("issued by %q to %q, valid until %s", cmp.Or(cert.Issuer.String(), "(no name)"), cmp.Or(cert.Subject.String(), "(no name)"), cert.NotAfter.UTC().Format(time.DateOnly))
}

// handshake opens and closes a TLS connection, and returns vCenter's certificate.
func (c *checker) handshake(ctx context.Context, cfg *tls.Config) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, session.DialTimeout+session.HandshakeTimeout)
	defer cancel()
	host, port := c.hostPort()
	raw, err := c.parts.Client.Transport().DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	defer raw.Close() //nolint:errcheck // nothing was sent
	cfg.ServerName = host
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// untrusted describes a certificate that is not trusted.
func (c *checker) untrusted(ctx context.Context, err error) {
	f, known := vcfault.OfCertificate(err)
	if !known {
		c.failed("certificate", err)
		return
	}
	seen, advice, _ := strings.Cut(f.Message, ": ")
	leaf, err := c.handshake(ctx, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}) // only to read it
	if err == nil {
		seen += "; " + describe(leaf)
		if advice += " Before you do, compare the thumbprint with the one that vCenter itself shows."; leaf.Issuer.String() != leaf.Subject.String() {
			advice += " (vCenter's own CA certificate is at https://<vCenter>/certs/download.zip.)"
		}
	}
	c.add("certificate", Fail, seen, advice)
}

// login logs in; run logs out at its end.
func (c *checker) login(ctx context.Context) {
	var err error
	if c.s, err = c.parts.Client.Session(ctx); err == nil {
		c.ok("login", "as %s", c.s.User)
		return
	}
	switch e := vcfault.Classify("", err); e.Reason {
	case vcfault.ReasonNotVCenter:
		c.failed("vCenter", err)
	case vcfault.ReasonInternal, vcfault.ReasonNotVCenterAPI: // not a fault that vCenter or the network returns
		c.add("vCenter", Fail, "the endpoint does not respond like a vCenter: "+e.Message, "check that --host (VC_HOST) is a vCenter and not another web server or a proxy")
	default:
		c.failed("login", err)
	}
}

// version checks vCenter's version. login has checked that it is a vCenter and not an ESXi host.
//
// govmomi is for vSphere 7.0 and higher (its README); the calls that attach tags exist since 6.5. /rest is deprecated since 7.0 U2, and can be
// removed "after 2 major vSphere releases" (https://core.vmware.com/blog/vsphere-7-update-2-rest-api-modernization).
func (c *checker) version(context.Context) {
	const check = "vCenter"
	about := c.s.Vim.ServiceContent.About
	seen := fmt.Sprintf("%s, build %s, API %s, instanceUuid %s", about.FullName, about.Build, about.ApiVersion, about.InstanceUuid)
	var major, minor int
	_, _ = fmt.Sscanf(about.ApiVersion, "%d.%d", &major, &minor) // both are 0 if ApiVersion is not a version
	switch {
	case about.InstanceUuid == "":
		c.add(check, Fail, seen, "a vCenter without an instanceUuid cannot be distinguished from others: contact VMware support")
	case major < 6 || major == 6 && minor < 5:
		c.add(check, Fail, seen, "this version is too old: vSphere 7.0 or newer is supported")
	case major < 7:
		c.add(check, Warn, seen, "vSphere 7.0 or newer is supported; this version may work but is not tested")
	case major > 8: // where vCenter may no longer serve /rest, which the calls for tags and libraries use
		c.add(check, Warn, seen, "vSphere 7.0 and 8.0 are supported, and no one has tried this version: try --deep, and send us what --record writes")
	default:
		c.ok(check, "%s", seen)
	}
	c.facts(Facts{"version": version(about.Version), "build": version(about.Build), "api": version(about.ApiVersion)})
}

// simulator warns if this is govmomi's simulator. Its AboutInfo is a recorded vCenter's, but it lists its methods at a path that vCenter
// doesn't have (Service.About of govmomi/simulator).
func (c *checker) simulator(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, session.DialTimeout)
	defer cancel()
	u := *c.parts.Client.Endpoint()
	u.User, u.Path = nil, "/about"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return
	}
	answer, err := c.parts.Client.Transport().RoundTrip(r) // which follows no redirect
	if err != nil {
		return
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	var has struct {
		Methods []string `json:"methods"`
	}
	if json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&has) == nil && slices.Contains(has.Methods, "CloneVM_Task") {
		c.add("simulator", Warn, "this is govmomi's simulator (vcsim), not a vCenter", "what --deep finds here says nothing about a vCenter; the simulator of --simulator is stricter")
	}
}

// clock compares vCenter's clock with this machine's. The server does not depend on vCenter's: it takes the times in stamps from its own
// clock and compares them only with that clock (or with other replicas'), and it identifies a guest's shutdown by bootTime alone. But people
// compare stamps, events and logs, and certificates are valid only for some time.
func (c *checker) clock(ctx context.Context) {
	const check, advice = "clock", "synchronize both clocks with NTP; the server's own times (drain, quarantine) use this machine's clock"
	var theirs, began time.Time
	err := c.call(ctx, func(ctx context.Context, s *session.Session) error {
		began = c.now()
		at, err := methods.GetCurrentTime(ctx, s.Vim)
		if err == nil {
			theirs = *at
		}
		return err
	})
	if err != nil {
		c.failed(check, err)
		return
	}
	took := c.now().Sub(began)
	off := theirs.Sub(began.Add(took / 2)).Round(time.Second)
	result, then := OK, ""
	if off.Abs() > skewedMuch {
		result, then = Fail, advice
	} else if off.Abs() > skewed {
		result, then = Warn, advice
	}
	c.add(check, result, fmt.Sprintf("vCenter's clock is off by %s from this machine's", off), then)
	c.facts(Facts{"offMs": millis(off), "roundTripMs": millis(took)})
}
