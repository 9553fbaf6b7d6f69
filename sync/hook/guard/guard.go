// Package guard protects the hooks' listener: it authenticates callers (by a bearer token, a client certificate, or both) before it reads a
// byte of a body or queues a request, and bounds the connections of unauthenticated clients. It doesn't depend on the hooks.
//
//	a broken certificate or key             the server keeps using the former pair
//	a token file or CA file that is         the server rejects all callers: emptying the file locks them out
//	broken, empty or gone
//
// It reloads all files when they change, without a restart.
//
// Locks: watched, bounded and quiet each have a mutex for their own fields. No goroutine holds two of them, or holds one while it reads a
// file.
package guard

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/metrics"
)

// Config says what callers must present. With neither tokens nor ClientCAFile, callers needn't authenticate.
type Config struct {
	// CertFile and KeyFile are the server's certificate, with its chain, and its key, in PEM; both or none.
	CertFile, KeyFile string
	// ClientCAFile contains the CAs, in PEM, one of which must have signed a caller's certificate. For a GET, the server's own certificate
	// suffices, too.
	ClientCAFile string
	// TokenFiles contain a token each, for callers that can do everything. A missing or empty file contains none.
	TokenFiles []string
	// ReaderTokenFiles contain a token each, for callers that can only GET.
	ReaderTokenFiles []string
	// LocalNames admits only requests for localhost or an IP address. Otherwise, on loopback without authentication, a web page
	// whose host name resolves to 127.0.0.1 could call the hooks.
	LocalNames bool
	// Browser lets users of a browser enter a token in a form; nil: no form.
	Browser *Browser
	Log     zerolog.Logger
	Meter   prometheus.Registerer // can be nil
}

// Guard admits callers. All methods can be called from any goroutine.
type Guard struct {
	cfg     Config
	keys    *watched[keys]    // nil: no token required
	pair    *watched[shown]   // nil: no TLS
	callers *watched[callers] // nil: no certificate required
	refused *prometheus.CounterVec
	quiet   map[reason]*quiet
}

// reason is why a caller was refused, for the metric and the log.
type reason string

const (
	noToken     reason = "no-token"
	wrongToken  reason = "wrong-token"
	onlyReads   reason = "reader" // a reader's token for a call that isn't a GET
	certificate reason = "certificate"
	handshake   reason = "handshake"
	foreignName reason = "host-name"
	crossSite   reason = "cross-site" // another site's form
	tooMany     reason = "connections"
)

// New reads all files. Its errors name the flags of files that are invalid.
func New(cfg Config) (*Guard, error) {
	g := &Guard{cfg: cfg, quiet: map[reason]*quiet{}}
	g.refused = metrics.Refused.Counter(cfg.Meter)
	for _, r := range []reason{noToken, wrongToken, onlyReads, certificate, handshake, foreignName, crossSite, tooMany} {
		g.refused.WithLabelValues(string(r))
		g.quiet[r] = &quiet{}
	}
	err := errors.Join(g.openPair(), g.openCallers(), g.openTokens())
	metrics.KeyFilesUnreadable.Gauge(cfg.Meter, func(set func(float64, ...string)) { set(float64(g.unreadable())) })
	return g, err
}

// unreadable returns how many files cannot be read. A file that doesn't exist is one of them, unless it is a token file beside another one
// that has a token for the hooks: a Secret has its second token only while the token is changed.
func (g *Guard) unreadable() (n int) {
	if g.pair != nil {
		unread, missing := g.pair.lost()
		n += unread + missing
	}
	if g.callers != nil {
		unread, missing := g.callers.lost()
		n += unread + missing
	}
	if g.keys != nil {
		unread, missing := g.keys.lost()
		if n += unread; len(g.keys.now().hooks) == 0 {
			n += missing
		}
	}
	return n
}

// Ready returns why no caller can be admitted; nil if callers can.
func (g *Guard) Ready() error {
	if g.keys != nil && len(g.keys.now().hooks) == 0 {
		return errors.New("no token for the hooks can be read: check the files of --token-file")
	}
	if g.callers != nil && g.callers.now().err != nil {
		return errors.New("no CA of callers can be read: check the file of --client-ca-file")
	}
	return nil
}

func (g *Guard) openPair() error {
	cert, key := g.cfg.CertFile, g.cfg.KeyFile
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return errors.New("--tls-cert-file and --tls-private-key-file: set both, or neither")
	}
	first := true
	g.pair = watch([]string{cert, key}, func(before shown, files []content) shown {
		s := parsePair(before, files)
		switch {
		case first:
		case s.err != nil:
			g.cfg.Log.Error().Err(s.err).Msg("the new certificate is invalid: still using the former one")
		default:
			g.cfg.Log.Info().Str("file", cert).Time("expires", s.pair.Leaf.NotAfter).Msg("reloaded the certificate")
		}
		if s.pair != nil && s.expired(time.Now()) {
			g.cfg.Log.Error().Str("file", cert).Time("expires", s.pair.Leaf.NotAfter).Msg("the certificate has expired: callers will refuse it")
		}
		return s
	})
	s := g.pair.now()
	if first = false; s.err != nil {
		return fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", s.err)
	}
	metrics.CertificateExpiry.Gauge(g.cfg.Meter, func(set func(float64, ...string)) { set(g.pair.now().expires()) })
	return nil
}

func (g *Guard) openCallers() error {
	if g.cfg.ClientCAFile == "" {
		return nil
	}
	if g.pair == nil {
		return errors.New("--client-ca-file requires --tls-cert-file and --tls-private-key-file")
	}
	first := true
	g.callers = watch([]string{g.cfg.ClientCAFile}, func(before callers, files []content) callers {
		c := parseCallers(before, files)
		switch {
		case first:
		case c.err != nil:
			g.cfg.Log.Error().Err(c.err).Msg("no client CA left: rejecting all callers")
		default:
			g.cfg.Log.Info().Str("file", g.cfg.ClientCAFile).Msg("reloaded the client CAs")
		}
		return c
	})
	c := g.callers.now()
	if first = false; c.err != nil {
		return fmt.Errorf("--client-ca-file: %w", c.err)
	}
	return nil
}

func (g *Guard) openTokens() error {
	if len(g.cfg.TokenFiles) == 0 {
		if len(g.cfg.ReaderTokenFiles) > 0 {
			return errors.New("--reader-token-file requires --token-file, or only readers would need a token")
		}
		return nil
	}
	for _, path := range g.cfg.ReaderTokenFiles {
		if slices.Contains(g.cfg.TokenFiles, path) {
			return fmt.Errorf("--reader-token-file and --token-file name the same file %s", path)
		}
	}
	first := true
	g.keys = watch(slices.Concat(g.cfg.TokenFiles, g.cfg.ReaderTokenFiles), func(_ keys, files []content) keys {
		k := parseKeys(files, g.cfg.TokenFiles)
		if first {
			return k
		}
		for _, p := range k.problems {
			g.cfg.Log.Error().Str("problem", p).Msg("ignoring a token")
		}
		if len(k.hooks) == 0 {
			g.cfg.Log.Error().Strs("files", g.cfg.TokenFiles).Msg("no token left: rejecting all calls of the hooks")
		} else {
			g.cfg.Log.Info().Int("hooks", len(k.hooks)).Int("readers", len(k.readers)).Msg("reloaded the tokens")
		}
		return k
	})
	k := g.keys.now()
	if first = false; len(k.problems) > 0 {
		return errors.New("--token-file, --reader-token-file: " + strings.Join(k.problems, "; "))
	}
	if len(k.hooks) == 0 {
		return fmt.Errorf("--token-file: there is no token in %s", strings.Join(g.cfg.TokenFiles, ", "))
	}
	return nil
}

// Authenticates reports whether callers must authenticate.
func (g *Guard) Authenticates() bool { return g.keys != nil || g.callers != nil }

// Encrypts reports whether the listener uses TLS.
func (g *Guard) Encrypts() bool { return g.pair != nil }

// wrap passes requests of admitted callers to next.
func (g *Guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := g.refusal(r)
		if why == "" {
			if g.callers != nil || g.keys != nil {
				know(r.Context())
			}
			next.ServeHTTP(w, r)
			return
		}
		if g.browse(w, r, why) {
			return
		}
		switch why {
		case onlyReads:
			g.refuse(w, r, why, http.StatusForbidden, "this token can only GET")
		case foreignName:
			g.refuse(w, r, why, http.StatusForbidden, "call this server by its address or as localhost")
		default:
			w.Header().Set("WWW-Authenticate", challenge)
			g.refuse(w, r, why, http.StatusUnauthorized, "authentication required")
		}
	})
}

// challenge tells programs how to authenticate. Browsers don't know it, and show the answer.
const challenge = `Bearer realm="vmgroup"`

// refusal returns why a call is refused; "" if it is admitted.
func (g *Guard) refusal(r *http.Request) reason {
	if g.cfg.LocalNames && !localName(r.Host) {
		return foreignName
	}
	if g.callers != nil && !g.trusts(r.TLS) && !(reads(r) && g.isOwn(r.TLS)) {
		return certificate
	}
	if g.keys == nil {
		return ""
	}
	token, some := bearer(r.Header)
	if !some && g.opens(r) {
		return ""
	}
	if !some {
		return noToken
	}
	k, presented := g.keys.now(), sha256.Sum256([]byte(token))
	mayCall, mayRead := among(k.hooks, presented), among(k.readers, presented)
	switch {
	case mayCall, mayRead && reads(r):
		return ""
	case mayRead:
		return onlyReads
	}
	return wrongToken
}

// reads reports whether a request only reads: HEAD is GET without the body (RFC 9110, section 9.3.2).
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// bearer returns the token of the single Authorization header.
func bearer(h http.Header) (token string, some bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// goodbye is how long net/http discards what a refused client still sends, up to 256 KiB. Without this time the connection would be reset,
// and a client that is still writing would see the reset instead of the reason.
const goodbye = 500 * time.Millisecond

// refuse answers with one sentence without details, and closes the connection without reading the body.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, why reason, code int, sentence string) {
	g.count(why, r.RemoteAddr)
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(sentence + "\n"))
	leave(w)
}

// leave ends a connection whose client may still send.
func leave(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	_ = control.Flush()
	_ = control.SetReadDeadline(time.Now().Add(goodbye))
}

// count counts a refusal, and logs at most one refusal of each kind in quietFor.
func (g *Guard) count(why reason, from string) {
	g.refused.WithLabelValues(string(why)).Inc()
	if n, say := g.quiet[why].say(time.Now()); say {
		g.cfg.Log.Warn().Str("reason", string(why)).Str("from", from).Int("times", n).Msg("refused")
	}
}
