package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// nasty has what each encoding escapes.
const nasty = `p<4>s&"s'w\o/r+d %=ü;`

// echoes are ways in which an answer can repeat a request.
var echoes = map[string]func(string) string{
	"plainly": func(s string) string { return s },
	"xml": func(s string) string {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(s))
		return b.String()
	},
	"entities": func(s string) string {
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace(s)
	},
	"text":      func(s string) string { return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s) },
	"html":      template.HTMLEscapeString,
	"json":      func(s string) string { text, _ := json.Marshal(s); return string(text) },
	"go":        strconv.Quote,
	"query":     url.QueryEscape,
	"path":      url.PathEscape,
	"lowercase": func(s string) string { return strings.ToLower(url.QueryEscape("é")) + lowerHex(url.QueryEscape(s)) },
	"base64":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"basic": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte("administrator@vsphere.local:" + s))
	},
	"url64": func(s string) string { return base64.URLEncoding.EncodeToString([]byte("u:" + s + ":x")) },
	"hex":   func(s string) string { return hex.EncodeToString([]byte(s)) },
	"xml in json": func(s string) string {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(s))
		text, _ := json.Marshal(b.String())
		return string(text)
	},
	"json in xml": func(s string) string {
		text, _ := json.Marshal(s)
		var b strings.Builder
		_ = xml.EscapeText(&b, text)
		return b.String()
	},
	"json in json": func(s string) string {
		text, _ := json.Marshal(s)
		text, _ = json.Marshal(string(text))
		return string(text)
	},
	"json in go": func(s string) string { text, _ := json.Marshal(s); return fmt.Sprintf("%q", text) },
}

func TestASecretIsMaskedInEachWayOfWritingIt(t *testing.T) {
	t.Parallel()
	for _, s := range []string{nasty, "correct-horse-battery", "hunter2-hunter2", `a\b\c\d\e"f"`, "pässwörd-ß"} {
		m := newMasker([]string{s})
		for name, echo := range echoes {
			text := "vCenter says: " + echo(s) + " is wrong"
			cleaned := m.clean(text)
			if !strings.Contains(cleaned, Mask) || strings.Contains(cleaned, echo(s)) || !strings.HasPrefix(cleaned, "vCenter says: ") || !strings.HasSuffix(cleaned, " is wrong") {
				t.Errorf("%s, %s: %s became %s", s, name, text, cleaned)
			}
			if left := strings.TrimSuffix(strings.TrimPrefix(cleaned, "vCenter says: "), " is wrong"); len(left) > len(Mask)+44 {
				t.Errorf("%s, %s: too much is left: %s", s, name, left)
			}
		}
	}
}

func TestAShortSecretIsMaskedAsAWordOnly(t *testing.T) {
	t.Parallel()
	m := newMasker([]string{"pass"})
	for text, want := range map[string]string{
		"pass": Mask, "the password, passing": "the password, passing", "user:pass, pass": "user:" + Mask + ", " + Mask, "bypass pass.": "bypass " + Mask + ".", "passpass": "passpass", "äpass pass": "äpass " + Mask,
	} {
		if got := m.clean(text); got != want {
			t.Errorf("%q became %q, not %q", text, got, want)
		}
	}
}

func TestWhatIsKeptIsCleanedAlsoAfterItWasReplaced(t *testing.T) {
	t.Parallel()
	Keep("test", "the-first-password")
	Keep("test", "the-second-password")
	Keep("test", "")
	if got := Clean("the-first-password or the-second-password"); got != Mask+" or "+Mask {
		t.Errorf("got %q; want both kept passwords masked", got)
	}
	var b strings.Builder
	if n, err := (Writer{&b}).Write([]byte("the-second-password\n")); n != 20 || err != nil || b.String() != Mask+"\n" {
		t.Errorf("%d %v %q; want 20, no error and %q", n, err, b.String(), Mask+"\n")
	}
}

func TestAnyLongPartOfWhatAnActionSendsIsMasked(t *testing.T) {
	t.Parallel()
	var user strings.Builder
	for i := range 100 {
		fmt.Fprintf(&user, "  - path: /etc/app/%d.conf\n    content: \"secret <%d> & 'more'\"\n", i, i*7919)
	}
	bag := new(Bag)
	bag.Add(user.String())
	bag.Add("Sysprep-1")
	for name, echo := range echoes {
		if strings.Contains(name, " in ") || name == "hex" {
			continue
		}
		whole := echo(user.String())
		for _, part := range []string{whole, whole[100:], whole[1000:1200]} {
			if got := bag.Clean("Invalid value " + part + "!"); len(got) > len("Invalid value !")+len(Mask)+44 {
				t.Errorf("%s: %.200s became %.200s", name, part, got)
			}
		}
	}
	if got := bag.Clean("A specified parameter was not correct: spec.config.extraConfig"); strings.Contains(got, Mask) {
		t.Errorf("got %q; want the text without a mask, because it has no secret", got)
	}
	type detail struct {
		Text  string
		Other any
		List  []any
		Next  *detail
	}
	d := &detail{Text: "it is Sysprep-1", Other: "no Sysprep-1", List: []any{"Sysprep-1", 7, detail{Text: "Sysprep-1"}}, Next: &detail{Text: "Sysprep-1"}}
	bag.CleanAll(d)
	if text := fmt.Sprintf("%+v %+v", d, d.Next); strings.Contains(text, "Sysprep-1") || strings.Count(text, Mask) != 5 {
		t.Errorf("got %q; want all five secrets masked", text)
	}
	(*Bag)(nil).CleanAll(d)
}
