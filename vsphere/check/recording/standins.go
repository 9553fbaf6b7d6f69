package recording

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strings"
)

// standIns replaces texts by stand-ins. The same text always has the same stand-in, and a text with a form of vSphere's API, such as a UUID, has
// one of the same form, so that a recording can be decoded like the original. Texts that differ only in case have stand-ins that differ only in
// case.
type standIns struct {
	byText map[string]string // the stand-in, by the text in lower case
	first  map[string]string // the first spelling of a text, by the text in lower case
	count  map[string]int    // the number of stand-ins of a form
}

func newStandIns() standIns {
	return standIns{byText: map[string]string{}, first: map[string]string{}, count: map[string]int{}}
}

var (
	uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	fileForm = regexp.MustCompile(`^\[([^\]]*)\] ?(.*)$`) // of a datastore
	// suffixes are the suffixes of a VM's files, which are kept.
	suffixes = []string{".vmx", ".vmdk", ".vmtx", ".nvram", ".vmsd", ".vmsn", ".vswp", ".log", ".iso"}
	escapes  = regexp.MustCompile(`%2[fF]|%5[cC]|%25`)
)

// of returns the stand-in of a text.
func (s *standIns) of(text string) string {
	switch parts := fileForm.FindStringSubmatch(text); {
	case text == "":
		return ""
	case parts != nil:
		return "[" + s.of(parts[1]) + "] " + s.parts(parts[2], "/")
	case strings.Contains(text, `\`):
		return s.parts(text, `\`)
	case strings.HasPrefix(text, "/"):
		return s.parts(text, "/")
	}
	for _, suffix := range suffixes {
		if base := strings.TrimSuffix(text, suffix); base != text {
			return s.of(base) + suffix
		}
	}
	lower := strings.ToLower(text)
	if known, is := s.byText[lower]; is {
		if s.first[lower] != text {
			return strings.ToUpper(known)
		}
		return known
	}
	made := s.made(text)
	s.byText[lower], s.first[lower] = made, text
	return made
}

// parts replaces each part of a path or an account.
func (s *standIns) parts(text, by string) string {
	all := strings.Split(text, by)
	for i := range all {
		all[i] = s.of(all[i])
	}
	return strings.Join(all, by)
}

// made returns a new stand-in of the text's form. It keeps the escapes in a name: they are not private, and show how vCenter escapes names.
func (s *standIns) made(text string) string {
	form, layout := "text", func(n int) string {
		return fmt.Sprintf("text-%d", n) + strings.Join(escapes.FindAllString(text, -1), "")
	}
	ip, notIP := netip.ParseAddr(text)
	_, notMAC := net.ParseMAC(text)
	switch {
	case notIP == nil && ip.Is4():
		form, layout = "IPv4", func(n int) string { return fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255) } // RFC 2544
	case notIP == nil && ip.IsLinkLocalUnicast():
		form, layout = "fe80", func(n int) string { return fmt.Sprintf("fe80::%x", n) }
	case notIP == nil:
		form, layout = "IPv6", func(n int) string { return fmt.Sprintf("2001:db8::%x", n) } // RFC 3849
	case notMAC == nil && len(text) == 17:
		form, layout = "MAC", func(n int) string { return fmt.Sprintf("00:50:56:00:%02x:%02x", n>>8&255, n&255) }
	case uuidForm.MatchString(text):
		form, layout = "UUID", func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }
	}
	s.count[form]++
	return layout(s.count[form])
}

// address returns the path and the query of a REST call. It keeps the API's own words, and replaces other parts by stand-ins.
func (r *Recorder) address(u interface{ RequestURI() string }) string {
	where, query, _ := strings.Cut(u.RequestURI(), "?")
	parts := strings.Split(path.Clean(where), "/")
	for i, part := range parts {
		if !restWord.MatchString(part) {
			parts[i] = r.texts.of(part)
		}
	}
	where = strings.Join(parts, "/")
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, has := strings.Cut(pair, "=")
		if has && !restActions[value] {
			value = r.texts.of(value)
		}
		if key != "" {
			pairs = append(pairs, key+"="+value)
		}
	}
	if pairs != nil {
		where += "?" + strings.Join(pairs, "&")
	}
	return where
}

var (
	// restWord matches the words in paths of the vSphere Automation API.
	restWord    = regexp.MustCompile(`^$|^(api|rest|com|vmware|cis|session|tagging|tag|category|tag-association|content|library|item|file|local-library|subscribed-library|subscribed-item|vcenter|ovf|library-item|vm-template|library-items|id:[a-z-]*)$`)
	restActions = map[string]bool{"find": true, "deploy": true, "filter": true, "sync": true, "attach": true, "detach": true, "get": true, "list-attached-tags": true,
		"list-attached-tags-on-objects": true, "attach-multiple-tags-to-object": true, "list-tags-for-category": true, "create": true, "true": true, "false": true}
)
