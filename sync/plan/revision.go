package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// RevisionAlgorithm is the version of the way Revision counts. It is written into every stamp beside the
// revision, so that a later version of this server can tell an old hash from a changed spec.
const RevisionAlgorithm = 1

// Revision is a short hash of the part of the spec that only a new clone can change: the template. Only fields
// that are set enter it, as name, length and value; so a field that a later version adds changes no revision of
// a group that does not use it, and an upgrade of this server rolls nobody's VMs (a golden test holds this).
// cpu and memory are not part of it: they can be changed on a VM that exists.
func Revision(spec *v1alpha1.VmGroupSpec) string {
	var text []byte
	set := func(name, value string) {
		if value != "" {
			text = append(text, name...)
			text = append(text, ' ')
			text = strconv.AppendInt(text, int64(len(value)), 10)
			text = append(text, ' ')
			text = append(text, value...)
			text = append(text, '\n')
		}
	}
	set("template", spec.Template)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5])
}
