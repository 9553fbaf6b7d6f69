package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// expiresSoon is the remaining validity at which an expiring certificate is reported.
	expiresSoon = 30 * 24 * time.Hour
	// skewed is the difference between vCenter's clock and ours that is a warning, and skewedMuch one that is a failure: vCenter's Single
	// Sign-On tolerates 10 minutes (the default "Clock Tolerance" of its token policy), and beyond that the times in stamps, certificates
	// and vCenter's events no longer match for their readers.
	skewed, skewedMuch = 30 * time.Second, 10 * time.Minute
	// sessionsMany is the number of our user's sessions that is a warning: each replica has one, and one for REST.
	sessionsMany = 50
	// sessionsMost is vCenter's default limit of sessions: config.vmacore.soap.maxSessionCount,
	// https://knowledge.broadcom.com/external/article/375546
	sessionsMost = 3000
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
func (c *checker) address(ctx context.Context) bool {
	host, port := c.hostPort()
	if p := c.proxy(); p != "" {
		c.add("address", Skip, fmt.Sprintf("%s is reached through the proxy %s", host, p), "")
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, session.DialTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		c.add("address", Fail, fmt.Sprintf("the name %q cannot be resolved", host), "correct --host (VC_HOST) or this machine's DNS configuration")
		return false
	}
	conn, err := c.parts.Client.Transport().DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		seen := fmt.Sprintf("nothing answers at %s port %s", host, port)
		if f, known := vcfault.OfNetwork(err); known {
			seen += " (" + strings.TrimSuffix(strings.TrimPrefix(strings.Split(f.Message, "):")[0], "vCenter cannot be reached ("), ".") + ")"
		}
		c.add("address", Fail, seen, "check that vCenter is running and that no firewall or NetworkPolicy blocks this machine")
		return false
	}
	_ = conn.Close()
	if found[0] != host {
		host += " resolves to " + vcfault.Listing(found)
	}
	c.ok("address", "%s, port %s is open", host, port)
	return true
}

// certificate checks vCenter's certificate. Without a trusted one, the password is not sent.
func (c *checker) certificate(ctx context.Context) bool {
	trusted, err := c.parts.Config.TLS(c.parts.Client.Endpoint().Hostname())
	switch {
	case err != nil: // a file vanished after the settings were read
		c.add("certificate", Fail, err.Error(), "correct the setting")
		return false
	case c.parts.Client.Endpoint().Scheme == "http":
		c.add("certificate", Warn, "none: the password is sent unencrypted", "use https://")
		return true
	case c.proxy() != "":
		c.add("certificate", Skip, "behind a proxy, it is verified at login", "")
		return true
	}
	state, err := c.handshake(ctx, trusted)
	if err != nil {
		c.untrusted(ctx, err)
		return false
	}
	leaf := state.PeerCertificates[0]
	by := "the system's CA certificates"
	switch {
	case c.parts.Config.Insecure:
		c.add("certificate", Warn, "not verified (--insecure); "+describe(leaf), "anyone on the network path can read the password: use --ca-file or --thumbprint "+vcfault.Thumbprint(leaf))
		return true
	case c.parts.Config.Thumbprint != "":
		by = "its thumbprint"
	case c.parts.Config.CAFile != "":
		by = "the CA certificates in " + c.parts.Config.CAFile
	}
	left := leaf.NotAfter.Sub(c.now())
	seen := fmt.Sprintf("verified by %s; %s", by, describe(leaf))
	switch {
	case left <= 0: // the thumbprint makes it trusted nevertheless
		c.add("certificate", Warn, seen+", which has expired", "renew it and set --thumbprint to the new thumbprint")
	case left < expiresSoon:
		c.add("certificate", Warn, fmt.Sprintf("%s, in %d days", seen, int(left.Hours()/24)), "renew it in time; if you use --thumbprint, update it then")
	default:
		c.ok("certificate", "%s", seen)
	}
	return true
}

func describe(cert *x509.Certificate) string {
	return fmt.Sprintf("issued by %q to %q, valid until %s", nameOf(cert.Issuer.String()), nameOf(cert.Subject.String()), cert.NotAfter.UTC().Format(time.DateOnly))
}

func nameOf(name string) string {
	if name == "" {
		return "(no name)"
	}
	return name
}

// handshake opens and closes a TLS connection.
func (c *checker) handshake(ctx context.Context, cfg *tls.Config) (*tls.ConnectionState, error) {
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
	state := conn.ConnectionState()
	return &state, nil
}

// untrusted describes a certificate that is not trusted.
func (c *checker) untrusted(ctx context.Context, err error) {
	f, known := vcfault.OfCertificate(err)
	if !known {
		c.failed("certificate", err)
		return
	}
	seen, advice, _ := strings.Cut(f.Message, ": ")
	state, err := c.handshake(ctx, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}) // only to read it
	if err == nil && len(state.PeerCertificates) > 0 {
		leaf := state.PeerCertificates[0]
		seen += "; " + describe(leaf)
		if advice += " Before you do, compare the thumbprint with the one that vCenter itself shows."; leaf.Issuer.String() != leaf.Subject.String() {
			advice += " (vCenter's own CA certificate is at https://<vCenter>/certs/download.zip.)"
		}
	}
	c.add("certificate", Fail, seen, advice)
}

// login logs in; run logs out at its end.
func (c *checker) login(ctx context.Context) bool {
	s, err := c.parts.Client.Session(ctx)
	if err != nil {
		switch e := vcfault.Classify("", err); e.Reason {
		case vcfault.ReasonNotVCenter:
			c.failed("vCenter", err)
		case vcfault.ReasonInternal, vcfault.ReasonNotVCenterAPI: // neither a fault of vCenter nor of the network
			c.add("vCenter", Fail, "the endpoint does not respond like a vCenter: "+e.Message, "check that --host (VC_HOST) is a vCenter and not another web server or a proxy")
		default:
			c.failed("login", err)
		}
		return false
	}
	c.s = s
	c.ok("login", "as %s", s.User)
	return true
}

// version checks vCenter's version. login has checked that it is a vCenter and not an ESXi host.
//
// govmomi is for vSphere 7.0 and higher (its README); the calls that attach tags exist since 6.5.
func (c *checker) version(context.Context) bool {
	about := c.s.Vim.ServiceContent.About
	seen := fmt.Sprintf("%s, build %s, API %s, instanceUuid %s", about.FullName, about.Build, about.ApiVersion, about.InstanceUuid)
	major, minor := versionOf(about.ApiVersion)
	switch {
	case about.InstanceUuid == "":
		c.add("vCenter", Fail, seen, "a vCenter without an instanceUuid cannot be distinguished from others: contact VMware support")
	case major < 6 || major == 6 && minor < 5:
		c.add("vCenter", Fail, seen, "this version is too old: vSphere 7.0 or newer is supported")
	case major < 7:
		c.add("vCenter", Warn, seen, "vSphere 7.0 or newer is supported; this version may work but is not tested")
	default:
		c.ok("vCenter", "%s", seen)
	}
	c.facts(Facts{"version": version(about.Version), "build": version(about.Build), "api": version(about.ApiVersion)})
	return true
}

func versionOf(text string) (major, minor int) {
	parts := strings.Split(text+"..", ".")
	major, _ = strconv.Atoi(parts[0])
	minor, _ = strconv.Atoi(parts[1])
	return major, minor
}

// clock compares vCenter's clock with ours. The server does not depend on it: the times in stamps are of this server's clock and compared
// only with it (or those of several replicas with one another), and a guest's shutdown is identified by bootTime alone. But people compare
// stamps, events and logs, and certificates have a validity.
func (c *checker) clock(ctx context.Context) bool {
	var theirs time.Time
	began := c.now()
	err := c.call(ctx, func(ctx context.Context, s *session.Session) error {
		began = c.now()
		at, err := methods.GetCurrentTime(ctx, s.Vim)
		if err == nil {
			theirs = *at
		}
		return err
	})
	if err != nil {
		c.failed("clock", err)
		return true
	}
	took := c.now().Sub(began)
	off := theirs.Sub(began.Add(took / 2)).Round(time.Second)
	seen := fmt.Sprintf("vCenter's clock is off by %s from this machine's", off)
	const advice = "synchronize both clocks with NTP; the server's own times (drain, quarantine) use this machine's clock"
	switch {
	case off.Abs() > skewedMuch:
		c.add("clock", Fail, seen, advice)
	case off.Abs() > skewed:
		c.add("clock", Warn, seen, advice)
	default:
		c.ok("clock", "%s", seen)
	}
	c.facts(Facts{"offMs": millis(off), "roundTripMs": millis(took)})
	return true
}

// sessions counts the sessions, if our user may see them. The server itself does not need to.
func (c *checker) sessions(ctx context.Context) bool {
	var all []types.UserSession
	visible := false
	err := c.call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, *s.Vim.ServiceContent.SessionManager, "sessionList")
		list, is := session.LookUp[types.ArrayOfUserSession](o, "sessionList")
		all, visible = list.UserSession, is
		return err
	})
	if err != nil || !visible {
		c.add("sessions", Skip, "not visible to this user; the server does not need this (Sessions.TerminateSession)", "")
		return true
	}
	ours := 0
	for _, x := range all {
		if strings.EqualFold(x.UserName, c.s.User) {
			ours++
		}
	}
	seen := fmt.Sprintf("%d, %d of them of this user; vCenter's limit is %d by default", len(all), ours, sessionsMost)
	switch {
	case len(all) > sessionsMost*8/10:
		c.add("sessions", Warn, seen, "find the client that does not log out: at the limit, no client can log in")
	case ours > sessionsMany:
		c.add("sessions", Warn, seen, "a replica of the server has at most two: find out what else uses this account, and give the server its own account")
	default:
		c.ok("sessions", "%s", seen)
	}
	c.facts(Facts{"all": count(len(all)), "own": count(ours)})
	return true
}
