package world

import (
	"net/url"
	"strings"
)

// Escape returns a name as vCenter stores it, of a managed object or a first-class disk: [doc] ManagedEntity.name: %, / and \ are escaped;
// vmware/rbvmomi#169 shows "%2f" in the name of a first-class disk.
func Escape(name string) string {
	for _, c := range []string{"%", "/", `\`} {
		name = strings.ReplaceAll(name, c, strings.ToLower(url.QueryEscape(c)))
	}
	return name
}
