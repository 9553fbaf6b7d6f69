package plan

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

func userDataGroup(u *v1alpha1.UserData) *v1alpha1.VmGroup {
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{UserData: u}}
	g.Namespace, g.Name = "shop", "web"
	return g
}

func TestUserDataOfAGroupIsWhatItsSpecNames(t *testing.T) {
	t.Parallel()
	key := &v1alpha1.KeyRef{Name: "web-data"}
	for _, c := range []struct {
		from *v1alpha1.UserData
		want UserDataRef
	}{
		{nil, UserDataRef{}},
		{&v1alpha1.UserData{}, UserDataRef{}},
		{&v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{}}, UserDataRef{}},
		{&v1alpha1.UserData{SecretKeyRef: key}, UserDataRef{"Secret", "shop", "web-data", "user-data"}},
		{&v1alpha1.UserData{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: "c", Key: "k"}}, UserDataRef{"ConfigMap", "shop", "c", "k"}},
	} {
		if got, wanted := UserDataOf(userDataGroup(c.from)); got != c.want || wanted != (c.want != UserDataRef{}) {
			t.Errorf("%+v: %+v, %v; want %+v and %v", c.from, got, wanted, c.want, c.want != UserDataRef{})
		}
	}
	r, _ := UserDataOf(userDataGroup(&v1alpha1.UserData{SecretKeyRef: key}))
	if r.String() != "Secret shop/web-data" || r.Resource() != "secrets" {
		t.Errorf("%s, %s", r, r.Resource())
	}
}

func TestInvalidUserDataIsAFaultThatQuotesNoneOfIt(t *testing.T) {
	t.Parallel()
	const planted = "planted-secret"
	secret := UserDataRef{"Secret", "shop", "web-data", "user-data"}
	configMap := UserDataRef{"ConfigMap", "shop", "web-data", "k"}
	noise := make([]byte, 3*MaxUserData/2)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/"[random.IntN(64)]
	}
	copy(noise, planted)
	for _, c := range []struct {
		name   string
		got    Related
		reason string
		says   []string
	}{
		{"no Secret", secret.NotFound(true), ReasonSecretNotFound, []string{"Secret shop/web-data", "create it"}},
		{"no Secrets at all", secret.NotFound(false), ReasonSecretNotFound, []string{"customize", "watch secrets"}},
		{"no ConfigMap", configMap.NotFound(true), ReasonConfigMapNotFound, []string{"ConfigMap shop/web-data"}},
		{"another key", secret.KeyNotFound([]string{planted, "a"}), ReasonUserDataKeyNotFound, []string{`no key "user-data"`, "it has 2 other keys"}},
		{"another key of a ConfigMap", configMap.KeyNotFound([]string{"b", "a"}), ReasonUserDataKeyNotFound, []string{`no key "k"`, "it has a, b"}},
		{"no key", secret.KeyNotFound(nil), ReasonUserDataKeyNotFound, []string{"no keys at all"}},
		{"many keys", configMap.KeyNotFound(strings.Split(strings.Repeat("x ", 99), " ")), ReasonUserDataKeyNotFound, []string{"and 90 more"}},
		{"empty", secret.Take(nil), ReasonUserDataEmpty, []string{`the key "user-data" of Secret shop/web-data`}},
		{"blank", configMap.Take([]byte(" \n\t")), ReasonUserDataEmpty, []string{`the key "k" of ConfigMap shop/web-data`}},
		{"no text", secret.Take([]byte(planted + "\xff")), ReasonUserDataNotText, []string{"UTF-8"}},
		{"too large", secret.Take(noise), ReasonUserDataTooLarge, []string{"98304 bytes", "65536", "shorten it"}},
		{"no related objects", NoRelated(userDataGroup(&v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "web-data"}})), ReasonUserDataNotGiven, []string{"Secret shop/web-data", "apply the group"}},
	} {
		f := c.got.Fault
		if f == nil || f.Reason != c.reason || !f.NeedsOperator || c.got.UserData != "" || c.got.Digest != "" {
			t.Errorf("%s: %+v", c.name, f)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(f.Message, says) {
				t.Errorf("%s: %q does not say %q", c.name, f.Message, says)
			}
		}
		if strings.Contains(f.Message, planted) || len(f.Message) > 600 {
			t.Errorf("%s: %s", c.name, f.Message)
		}
		if c.got.NotGiven() != (c.reason == ReasonUserDataNotGiven) {
			t.Errorf("%s: not given is %v", c.name, c.got.NotGiven())
		}
	}
	if r := NoRelated(userDataGroup(nil)); r != (Related{}) {
		t.Errorf("a group without user data: %+v; want %+v", r, Related{})
	}
}

func TestUserDataIsTakenVerbatimAndItsDigestDistinguishesTexts(t *testing.T) {
	t.Parallel()
	r := UserDataRef{"Secret", "shop", "web-data", "user-data"}
	one, same, other := r.Take([]byte("#cloud-config\n")), r.Take([]byte("#cloud-config\n")), r.Take([]byte("#cloud-config\n\n"))
	if one.Fault != nil || one.UserData.Reveal() != "#cloud-config\n" || len(one.Digest) != 32 || one != same || one.Digest == other.Digest {
		t.Errorf("got the user data %+v, %+v and %+v; want them verbatim, and the same digest for the first two alone", one, same, other)
	}
	if large := r.Take([]byte(strings.Repeat("- a line that shrinks\n", 20_000))); large.Fault != nil {
		t.Errorf("got the fault %+v for 440 kB that compress well; want none", large.Fault)
	}
}

func TestUserDataIsForIgnitionIfItIsItsConfigAndIsReportedIfNoGuestReadsIt(t *testing.T) {
	t.Parallel()
	r := UserDataRef{"Secret", "shop", "web-data", "user-data"}
	for text, ignition := range map[string]bool{
		"#cloud-config\n": false, "\n #Cloud-Config\n": false, "#!/bin/sh\n": false, "#include\nhttps://example.com\n": false,
		"## template: jinja\n#cloud-config\n": false, "## template: jinja\n{% set x = 1 %}\n#!/bin/sh\n": false, "## template: jinja\n{{ x }}\n": false,
		"#cloud-boothook\n": false, "## template: jinja\n#cloud-boothook\n": false, "#cloud-config-archive\n": false, "#part-handler\n": false,
		"Content-Type: multipart/mixed; boundary=\"x\"\nMIME-Version: 1.0\n\n--x\n": false,
		"#ps1_sysnative\n": false, "rem cmd\n": false, "<powershell>x</powershell>": false,
		`{"ignition":{"version":"3.4.0"}}`: true, "\n{ \"storage\": {}, \"ignition\": {\"version\": \"2.3.0\"} }\n": true,
	} {
		if got := r.Take([]byte(text)); got.Fault != nil || got.Unrecognized != "" || got.UserData.IsIgnition() != ignition {
			t.Errorf("%q: %+v", text, got)
		}
	}
	for _, text := range []string{
		"variant: flatcar\nversion: 1.0.0\npasswd: planted\n", "packages: [planted]\n", "# planted\n#cloud-config\n", "{}", `{"ignition":{}}`,
		"## template: jinja\npackages: [planted]\n", "## template: jinja\n# planted\n#cloud-config\n", "\n## template: jinja\n#cloud-config\n",
		"#upstart-job\n", "\n#!/bin/sh\n", "planted\nMIME-Version: 1.0\n",
		"\n#cloud-boothook\n", "## template: jinja\n#cloud-config-archive\n", "## template: jinja2\n#cloud-config\n",
		`{"ignition":{"version":3}}`, `{"ignition":{"version":"3.4.0"}`, strings.Repeat(" ", mimeWithin) + "mime-version: 1.0", "I2Nsb3VkLWNvbmZpZwo=",
	} {
		got := r.Take([]byte(text))
		if got.Fault != nil || got.UserData.Reveal() != text || got.Digest == "" || got.UserData.IsIgnition() {
			t.Errorf("%q: %+v", text, got)
		}
		if !strings.Contains(got.Unrecognized, `"user-data" of Secret shop/web-data`) || strings.Contains(got.Unrecognized, "planted") {
			t.Errorf("%q: %s", text, got.Unrecognized)
		}
	}
}

func unpack(t *testing.T, encoded string) string {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(encoded)
	must.Succeed(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must.Succeed(t, err)
	if !z.ModTime.IsZero() || z.Name != "" {
		t.Errorf("the header says %v %q", z.ModTime, z.Name)
	}
	plain, err := io.ReadAll(z)
	must.Succeed(t, err)
	return string(plain)
}

func FuzzUserDataDecodesAsItWasAndIsNoLargerThanPredicted(f *testing.F) {
	for _, text := range []string{"", "#cloud-config\n", "## template: jinja\n{{ ds.meta_data.ordinal }}", "\x00\xff", strings.Repeat("x", 70_000)} {
		f.Add(text, uint64(0))
	}
	f.Add("", uint64(100_000))
	f.Fuzz(func(t *testing.T, text string, noise uint64) {
		random := rand.New(rand.NewPCG(noise, 1))
		more := make([]byte, noise%200_000) // incompressible
		for i := range more {
			more[i] = byte(random.Uint32())
		}
		text += string(more)
		encoded, encoding := EncodeUserData(Sensitive(text))
		again, _ := EncodeUserData(Sensitive(text))
		if encoding != "gzip+base64" || encoded != again || unpack(t, encoded) != text {
			t.Errorf("%d bytes: %s", len(text), encoding)
		}
		if len(encoded) > encodedAtMost(len(text)) {
			t.Errorf("%d bytes became %d, more than %d", len(text), len(encoded), encodedAtMost(len(text)))
		}
	})
}
