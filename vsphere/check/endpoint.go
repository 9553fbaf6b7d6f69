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
	// expiresSoon is how long before its expiry a certificate is reported.
	expiresSoon = 30 * 24 * time.Hour
	// skewed is a difference between vCenter's clock and ours that is reported; skewedMuch, one that is a failure: vCenter's
	// Single Sign-On tolerates 10 minutes (its default, "Clock Tolerance" of the token policy), and by then the times in our
	// stamps, the certificates' validity and vCenter's own events no longer go together for people who read them.
	skewed, skewedMuch = 30 * time.Second, 10 * time.Minute
	// sessionsMany is how many sessions of our user are told of: each replica has one, and one of REST.
	sessionsMany = 50
	// sessionsMost is how many sessions a vCenter has at most, by default: config.vmacore.soap.maxSessionCount,
	// https://knowledge.broadcom.com/external/article/375546
	sessionsMost = 3000
)

// hostPort is where vCenter listens.
func (c *checker) hostPort() (host, port string) {
	u := c.parts.Client.Endpoint()
	if port = u.Port(); port == "" {
		if port = "443"; u.Scheme == "http" {
			port = "80"
		}
	}
	return u.Hostname(), port
}

// proxy is the proxy on the way to vCenter; empty if there is none.
func (c *checker) proxy() string {
	p, err := http.ProxyFromEnvironment(&http.Request{URL: c.parts.Client.Endpoint()})
	if err != nil || p == nil {
		return ""
	}
	return p.Host // and not its user and password
}

// address checks that vCenter's name resolves and that its port is open.
func (c *checker) address(ctx context.Context) bool {
	host, port := c.hostPort()
	if p := c.proxy(); p != "" {
		c.add("address", Skip, fmt.Sprintf("%s is reached by the proxy %s", host, p), "")
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, session.DialTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		c.add("address", Fail, fmt.Sprintf("the name %q cannot be resolved", host), "correct --host (VC_HOST), or the name server that this machine asks")
		return false
	}
	conn, err := c.parts.Client.Transport().DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		seen := fmt.Sprintf("nothing answers at %s port %s", host, port)
		if f, known := vcfault.OfNetwork(err); known {
			seen += " (" + strings.TrimSuffix(strings.TrimPrefix(strings.Split(f.Message, "):")[0], "vCenter cannot be reached ("), ".") + ")"
		}
		c.add("address", Fail, seen, "see whether vCenter runs, and whether a firewall or a NetworkPolicy keeps this machine from it")
		return false
	}
	_ = conn.Close()
	if found[0] != host {
		host += " is " + vcfault.Listing(found)
	}
	c.ok("address", "%s, and port %s answers", host, port)
	return true
}

// certificate looks whether vCenter's certificate is verified, and by what. The password is sent to nobody whose is not.
func (c *checker) certificate(ctx context.Context) bool {
	trusted, err := c.parts.Config.TLS(c.parts.Client.Endpoint().Hostname())
	switch {
	case err != nil: // a file that went since the settings were read
		c.add("certificate", Fail, err.Error(), "correct the setting")
		return false
	case c.parts.Client.Endpoint().Scheme == "http":
		c.add("certificate", Warn, "none: the password is sent in the clear", "use https://")
		return true
	case c.proxy() != "":
		c.add("certificate", Skip, "behind a proxy it is verified at the login", "")
		return true
	}
	state, err := c.handshake(ctx, trusted)
	if err != nil {
		c.untrusted(ctx, err)
		return false
	}
	leaf := state.PeerCertificates[0]
	by := "the system's authorities"
	switch {
	case c.parts.Config.Insecure:
		c.add("certificate", Warn, "not verified (--insecure); it is "+describe(leaf), "anybody on the way can read the password: verify by --ca-file, or by --thumbprint "+vcfault.Thumbprint(leaf))
		return true
	case c.parts.Config.Thumbprint != "":
		by = "its thumbprint"
	case c.parts.Config.CAFile != "":
		by = "the authorities in " + c.parts.Config.CAFile
	}
	left := leaf.NotAfter.Sub(c.now())
	seen := fmt.Sprintf("verified by %s; %s", by, describe(leaf))
	switch {
	case left <= 0: // by its thumbprint it is trusted all the same
		c.add("certificate", Warn, seen+", which is over", "renew it, and set --thumbprint to the new one's")
	case left < expiresSoon:
		c.add("certificate", Warn, fmt.Sprintf("%s, in %d days", seen, int(left.Hours()/24)), "renew it in time; with --thumbprint, the server has to be told the new one's")
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

// handshake makes a TLS connection and closes it.
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

// untrusted says what certificate is shown instead of a trusted one.
func (c *checker) untrusted(ctx context.Context, err error) {
	f, known := vcfault.OfCertificate(err)
	if !known {
		c.failed("certificate", err)
		return
	}
	seen, advice, _ := strings.Cut(f.Message, ": ")
	state, err := c.handshake(ctx, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}) // only to look at it
	if err == nil && len(state.PeerCertificates) > 0 {
		leaf := state.PeerCertificates[0]
		seen += "; it is " + describe(leaf)
		if advice += " Compare the thumbprint with the one that vCenter itself shows before you do."; leaf.Issuer.String() != leaf.Subject.String() {
			advice += " (vCenter's own authority is at https://<vCenter>/certs/download.zip.)"
		}
	}
	c.add("certificate", Fail, seen, advice)
}

// login logs in; Check logs out at its end.
func (c *checker) login(ctx context.Context) bool {
	s, err := c.parts.Client.Session(ctx)
	if err != nil {
		switch e := vcfault.Classify("", err); e.Reason {
		case vcfault.ReasonNotVCenter:
			c.failed("vCenter", err)
		case vcfault.ReasonInternal, vcfault.ReasonNotVCenterAPI: // no fault of vCenter's and none of the network's
			c.add("vCenter", Fail, "what answers there does not speak as a vCenter does: "+e.Message, "see whether --host (VC_HOST) is a vCenter, and not another web server or a proxy")
		default:
			c.failed("login", err)
		}
		return false
	}
	c.s = s
	c.ok("login", "as %s", s.User)
	return true
}

// version looks which vCenter it is. That it is one, and no ESXi host, the login has seen.
//
// govmomi is for vSphere 7.0 and higher (its README); tags are put on by calls that there are since 6.5.
func (c *checker) version(context.Context) bool {
	about := c.s.Vim.ServiceContent.About
	seen := fmt.Sprintf("%s, build %s, API %s, instanceUuid %s", about.FullName, about.Build, about.ApiVersion, about.InstanceUuid)
	major, minor := versionOf(about.ApiVersion)
	switch {
	case about.InstanceUuid == "":
		c.add("vCenter", Fail, seen, "a vCenter without an instanceUuid cannot be told from another: ask VMware's support")
	case major < 6 || major == 6 && minor < 5:
		c.add("vCenter", Fail, seen, "it is too old: vSphere 7.0 or newer is supported")
	case major < 7:
		c.add("vCenter", Warn, seen, "vSphere 7.0 or newer is supported; this version may work, but is not tested")
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

// clock compares vCenter's clock with ours. No step depends on it: times in the stamps are of this server's clock, and are
// compared by it (those of several replicas with one another), and a guest's shutdown is told by its bootTime alone. But
// whoever reads stamps, events and logs side by side, and certificates, do.
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
	seen := fmt.Sprintf("vCenter's is off by %s from this machine's", off)
	const advice = "have both keep their time by NTP; the server's own times (drain, quarantine) go by this machine's clock"
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

// sessions counts the sessions, if our user may see them, which the server itself has no need of.
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
		c.add("sessions", Skip, "not visible to this user; the server does not need that (Sessions.TerminateSession)", "")
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
		c.add("sessions", Warn, seen, "a replica of the server has two at most: find out what else uses this account, and give the server its own")
	default:
		c.ok("sessions", "%s", seen)
	}
	c.facts(Facts{"all": count(len(all)), "own": count(ours)})
	return true
}
