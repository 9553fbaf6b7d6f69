package guard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Browser admits users of a browser, which cannot present a bearer token: they enter a token in a form, any token that callers can present,
// and get a cookie that stands for it. With mTLS a browser needs its certificate as well.
//
// The cookie allows only GET of the pages that Covers names, whichever token was entered. It contains no token, but the time when it ends, and
// a MAC of that time with the token's digest as the key. So every replica of the server can verify the cookie without a record of it, and the
// cookie is invalid as soon as the token is. It is HttpOnly and SameSite=Strict, and over TLS Secure and bound to this host.
type Browser struct {
	// Covers reports whether a path is one of the page's. Open reports whether a GET of a path needs no token: the sign-in form uses it, such as
	// the style sheet.
	Covers, Open func(path string) bool
	// SignIn and SignOut are the paths that the forms are posted to.
	SignIn, SignOut string
	// Form answers with the form, with status 401. denied reports that the token that the user entered is refused.
	Form func(w http.ResponseWriter, r *http.Request, denied bool)
}

const (
	// sessionFor is how long a cookie is valid: a working day.
	sessionFor = 12 * time.Hour
	// formBytes bounds a posted form, and formTime the time until it has arrived, because the server reads it before the sender is
	// authenticated.
	formBytes = 3*longest + 4<<10
	formTime  = 5 * time.Second
	// cookieName is the cookie's name over TLS: browsers accept the prefix __Host- only on a Secure cookie, and send it to no other host.
	// cookieNamePlain is its name without TLS.
	cookieName, cookieNamePlain = "__Host-vmgroup", "vmgroup"
)

// browse answers a request of a browser that is not signed in, or that signs in or out, and reports whether it answered. The caller has
// already checked the certificate and the host name.
func (g *Guard) browse(w http.ResponseWriter, r *http.Request, why reason) (done bool) {
	b := g.cfg.Browser
	if b == nil || g.keys == nil || why == foreignName || why == certificate {
		return false
	}
	switch {
	case r.Method == http.MethodPost && r.URL.Path == b.SignIn:
		g.signIn(w, r)
	case r.Method == http.MethodPost && r.URL.Path == b.SignOut:
		g.signOut(w, r)
	case why == noToken && reads(r) && b.Covers(r.URL.Path) && r.Header.Get("Authorization") == "":
		g.ask(w, r, false)
	default:
		return false
	}
	return true
}

// opens reports whether a request needs no token: its path is Open, or it has a valid cookie.
func (g *Guard) opens(r *http.Request) bool {
	b := g.cfg.Browser
	return b != nil && reads(r) && (b.Open(r.URL.Path) || b.Covers(r.URL.Path) && g.SignedIn(r))
}

// SignedIn reports whether a request has a valid cookie.
func (g *Guard) SignedIn(r *http.Request) bool {
	if g.keys == nil {
		return false
	}
	c, err := r.Cookie(cookieOf(r))
	if err != nil {
		return false
	}
	text, code, _ := strings.Cut(c.Value, ".")
	ends, err := strconv.ParseInt(text, 10, 64)
	presented, err2 := hex.DecodeString(code)
	if left := time.Until(time.Unix(ends, 0)); err != nil || err2 != nil || left <= 0 || left > sessionFor {
		return false
	}
	k, found := g.keys.now(), false
	for _, digests := range [][][sha256.Size]byte{k.hooks, k.readers} {
		for i := range digests {
			if hmac.Equal(presented, seal(digests[i], ends)) {
				found = true
			}
		}
	}
	return found
}

// seal returns the MAC of a cookie that ends at that time, in seconds since 1970.
func seal(digest [sha256.Size]byte, ends int64) []byte {
	mac := hmac.New(sha256.New, digest[:])
	mac.Write([]byte("vmgroup browser session until " + strconv.FormatInt(ends, 10)))
	return mac.Sum(nil)
}

func cookieOf(r *http.Request) string {
	if r.TLS != nil {
		return cookieName
	}
	return cookieNamePlain
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieOf(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}

// sameOrigin refuses forms of other sites: they could sign a browser out, or in with another token.
var sameOrigin = http.NewCrossOriginProtection()

func (g *Guard) signIn(w http.ResponseWriter, r *http.Request) {
	if !g.mayPost(w, r) {
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	digest, k := sha256.Sum256([]byte(token)), g.keys.now()
	hooks, readers := among(k.hooks, digest), among(k.readers, digest)
	if !hooks && !readers {
		g.count(wrongToken, r.RemoteAddr)
		g.ask(w, r, true)
		return
	}
	ends := time.Now().Add(sessionFor).Unix()
	http.SetCookie(w, cookie(r, strconv.FormatInt(ends, 10)+"."+hex.EncodeToString(seal(digest, ends)), int(sessionFor.Seconds())))
	g.lead(w, g.cfg.Browser.within(r.PostForm.Get("to")))
}

func (g *Guard) signOut(w http.ResponseWriter, r *http.Request) {
	if !g.mayPost(w, r) {
		return
	}
	http.SetCookie(w, cookie(r, "", -1))
	g.lead(w, "/")
}

// mayPost reads a form, or refuses it.
func (g *Guard) mayPost(w http.ResponseWriter, r *http.Request) bool {
	if sameOrigin.Check(r) != nil {
		g.refuse(w, r, crossSite, http.StatusForbidden, "this form comes from another site: open the page of this server, and use its form")
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTime))
	r.Body = http.MaxBytesReader(w, r.Body, formBytes)
	if err := r.ParseForm(); err != nil {
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		g.refuse(w, r, noToken, code, "this is not a form that the server's page posts")
		return false
	}
	return true
}

// lead redirects a browser to a page, with GET.
func (g *Guard) lead(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

// within returns the page to which a signed-in browser is redirected: one of this server, never of another site.
func (b *Browser) within(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.ContainsAny(to, "\\\t\r\n") || strings.HasPrefix(to, "//") || !b.Covers(u.Path) || u.Path == b.SignIn {
		return "/"
	}
	return u.RequestURI()
}

// ask answers with the form, and closes the connection, as refuse does.
func (g *Guard) ask(w http.ResponseWriter, r *http.Request, denied bool) {
	w.Header().Set("Connection", "close")
	w.Header().Set("WWW-Authenticate", challenge)
	g.cfg.Browser.Form(w, r, denied)
	leave(w)
}
