package plan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// The reasons why there is no user data although spec.userData names some.
const (
	ReasonSecretNotFound      = "SecretNotFound"
	ReasonConfigMapNotFound   = "ConfigMapNotFound"
	ReasonUserDataKeyNotFound = "UserDataKeyNotFound"
	ReasonUserDataEmpty       = "UserDataEmpty"
	ReasonUserDataNotText     = "UserDataNotText"
	ReasonUserDataTooLarge    = "UserDataTooLarge"
	// ReasonUserDataNotGiven: the request has no related objects, like a request for the forecast of a manifest.
	ReasonUserDataNotGiven = "UserDataNotGiven"
	// ReasonUserDataUnrecognized: guests get the user data, but can't read its format.
	ReasonUserDataUnrecognized = "UserDataUnrecognized"
)

// MaxUserData limits encoded user data, in bytes. VMware's own VM Operator has the same limit for one guestinfo
// value (vmware-tanzu/vm-operator#148), from open-vm-tools' GUESTMSG_MAX_IN_SIZE (64 KiB,
// lib/include/guest_msg_def.h). VMware's "In-Guest Communication Limits" (Guest SDK 8.0) allow about 1 MB from host to
// guest, but that is also the limit of the whole .vmx file (tools.setInfo.sizeLimit), and every read of a VM's
// configuration includes the value.
const MaxUserData = 64 << 10

// userDataEncoding is the value of guestinfo.userdata.encoding (cloud-init, DataSourceVMware).
const userDataEncoding = "gzip+base64"

// EncodeUserData returns the values of guestinfo.userdata and guestinfo.userdata.encoding.
// Equal texts give equal bytes: the result has no time in it. It is as secret as the text.
func EncodeUserData(text Sensitive) (encoded, encoding string) {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is a valid one
	_, _ = z.Write([]byte(text.Reveal()))                      // a bytes.Buffer takes all
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(packed.Bytes()), userDataEncoding
}

// IsIgnition reports whether user data is a config for Ignition, which reads it from another place than cloud-init: JSON with
// ignition.version (https://coreos.github.io/ignition/specs).
func (s Sensitive) IsIgnition() bool {
	var config struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	return json.Unmarshal([]byte(s), &config) == nil && config.Ignition.Version != ""
}

const (
	// runBegins are the beginnings of user data that cloud-init lets the kernel run.
	runBegins = `#!|#cloud-boothook`
	// windowsBegins are the beginnings by which Windows' cloudbase-init recognizes user data.
	windowsBegins = `#ps1|rem cmd|<script>|<powershell>`
	// jinjaLine is the first line of a template.
	jinjaLine = `## template: jinja`
	// mimeWithin is the number of bytes in which cloud-init looks for the header of a MIME message.
	mimeWithin = 4096
)

// The user data that a guest reads, by its beginning. cloud-init (INCLUSION_TYPES_MAP) ignores case, and leading blanks except before what the
// kernel runs. Its handler of templates accepts only cloud-config, scripts and, since Debian 13, boothooks; only the guest knows what an
// expression becomes. "MIME-Version" doesn't make a MIME message of a text that doesn't begin with a header. test/judges compares this with
// cloud-init.
var (
	plainUserData    = regexp.MustCompile(`(?i)^(` + runBegins + `|\s*(#cloud-config|#include|#part-handler|` + windowsBegins + `))`)
	templateUserData = regexp.MustCompile(`(?i)^` + jinjaLine + `[ \t\r]*\n(` + runBegins + `|\s*(#cloud-config([^-]|-jsonp|$)|\{[{%#]|` + windowsBegins + `))`)
	mimeUserData     = regexp.MustCompile(`(?is)^([!-9;-~]+:.*)?mime-version:`)
)

// isRecognized reports whether cloud-init, cloudbase-init or Ignition reads user data that begins like this.
func (s Sensitive) isRecognized() bool {
	start := string(s)[:min(len(s), mimeWithin)]
	return s.IsIgnition() || plainUserData.MatchString(start) || templateUserData.MatchString(start) || mimeUserData.MatchString(start)
}

// encodedAtMost is the maximum size of EncodeUserData's result for a text of that many bytes: gzip stores incompressible data in blocks,
// with a few bytes for each block.
func encodedAtMost(size int) int { return base64.StdEncoding.EncodedLen(size + size/1024 + 64) }

// Format prints "[redacted]" for every verb. A String method wouldn't suffice: fmt prints the value itself if the verb doesn't suit it.
func (Sensitive) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// Format prints Details without the user data. An Action has a pointer to its Details, and if a verb doesn't suit a pointer (%s of an
// Action), fmt prints everything that it points to without calling methods.
func (d Details) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Zone:%q Home:%q Addresses:%q Prepared:%q}", d.Zone, d.Home, d.AddressText, d.Prepared)
}

// UserDataRef is the key of a Secret or ConfigMap that spec.userData names.
type UserDataRef struct {
	// Kind is Secret or ConfigMap.
	Kind                 string
	Namespace, Name, Key string
}

// UserDataOf returns the key that a group's spec.userData names; false if the field is not set. It depends on spec and metadata alone.
func UserDataOf(g *v1alpha1.VmGroup) (UserDataRef, bool) {
	from := g.Spec.UserData
	if from == nil {
		return UserDataRef{}, false
	}
	kind, ref := "Secret", from.SecretKeyRef
	if ref == nil {
		kind, ref = "ConfigMap", from.ConfigMapKeyRef
	}
	if ref == nil || ref.Name == "" {
		return UserDataRef{}, false
	}
	r := UserDataRef{Kind: kind, Namespace: g.Namespace, Name: ref.Name, Key: ref.Key}
	if r.Key == "" {
		r.Key = v1alpha1.DefaultUserDataKey
	}
	return r, true
}

// String returns the object's kind and name for messages: "Secret shop/web-data".
func (r UserDataRef) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// Resource is the API's resource name for the kind: "secrets".
func (r UserDataRef) Resource() string { return strings.ToLower(r.Kind) + "s" }

func (r UserDataRef) fault(reason, format string, args ...any) Related {
	return Related{Fault: &Fault{Reason: reason, NeedsOperator: true, Message: fmt.Sprintf(format, args...)}}
}

// NoRelated returns the Related of a call without any related objects: a fault if spec.userData names one.
func NoRelated(g *v1alpha1.VmGroup) Related {
	r, wanted := UserDataOf(g)
	if !wanted {
		return Related{}
	}
	return r.fault(ReasonUserDataNotGiven,
		"spec.userData names %s, which is unknown here: add it to the manifests, or apply the group and ask the server that Metacontroller calls (--server)", r)
}

// NotGiven reports whether the call has no related objects although spec.userData names one.
func (r Related) NotGiven() bool { return r.Fault != nil && r.Fault.Reason == ReasonUserDataNotGiven }

// NotFound returns the fault for an object that the call doesn't have. brought reports whether the call had other objects of that kind.
func (r UserDataRef) NotFound(brought bool) Related {
	reason := ReasonSecretNotFound
	if r.Kind == "ConfigMap" {
		reason = ReasonConfigMapNotFound
	}
	if brought {
		return r.fault(reason, "%s, which spec.userData names, is not there: create it", r)
	}
	return r.fault(reason, "%s, which spec.userData names, is not there, or Metacontroller does not bring it: create it; "+
		"and check that the CompositeController has the customize hook and that Metacontroller is allowed to get, list and watch %s", r, r.Resource())
}

// KeyNotFound returns the fault for an object without the key. It names the keys that a ConfigMap has; who can read a VmGroup need not be allowed to know
// those of a Secret.
func (r UserDataRef) KeyNotFound(keys []string) Related {
	keys = slices.Sorted(slices.Values(keys))
	has := "it has " + AtMost(keys, 10)
	switch {
	case len(keys) == 0:
		has = "it has no keys at all"
	case r.Kind != "ConfigMap":
		has = "it has " + Count(len(keys), "other key")
	}
	return r.fault(ReasonUserDataKeyNotFound, "%s, which spec.userData names, has no key %q (%s): add it, or name another", r, r.Key, has)
}

// Take returns the value of the key as user data, or a fault if guests can't get it. A fault contains no part of the value.
func (r UserDataRef) Take(value []byte) Related {
	text := string(value)
	switch {
	case strings.TrimSpace(text) == "":
		return r.fault(ReasonUserDataEmpty, "the key %q of %s, which spec.userData names, is empty: put a text for cloud-init or Ignition into it", r.Key, r)
	case strings.ToValidUTF8(text, "") != text: // DataSourceVMware decodes the text as UTF-8, and fails if it isn't
		return r.fault(ReasonUserDataNotText,
			"the key %q of %s, which spec.userData names, is not text in UTF-8, which is all that cloud-init reads here: store the plain text, neither compressed nor encrypted", r.Key, r)
	}
	if encodedAtMost(len(text)) > MaxUserData { // only then is the costly check needed
		if encoded, _ := EncodeUserData(Sensitive(text)); len(encoded) > MaxUserData {
			return r.fault(ReasonUserDataTooLarge,
				"the key %q of %s, which spec.userData names, has %d bytes, compressed and encoded %d, and a VM can be given %d: shorten it, or let cloud-init fetch the rest (#include)",
				r.Key, r, len(text), len(encoded), MaxUserData)
		}
	}
	sum := sha256.Sum256(value)
	given := Related{UserData: Sensitive(text), Digest: hex.EncodeToString(sum[:16])}
	if !given.UserData.isRecognized() {
		begin := "begin its first line with #cloud-config or #!, or make it an Ignition config in JSON (of a Butane file, with butane)"
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), jinjaLine) {
			begin = "let " + jinjaLine + " be its first line, and begin the second with #cloud-config or #!"
		}
		given.Unrecognized = fmt.Sprintf("the key %q of %s, which spec.userData names, is in no format that guests read: %s", r.Key, r, begin)
	}
	return given
}
