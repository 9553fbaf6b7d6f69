package vsphere

import (
	"errors"
)

// owner says whose a VM is.
type owner int

// readStamp reads the text of a VM's stamp, which is empty if it bears none. readable reports whether the VM's configuration could be
// read, and with it that text.
func readStamp(text, instanceUUID string, readable bool) (Stamp, owner) {
	switch {
	case !readable:
		return Stamp{}, unreadable
	case text == "":
		return Stamp{}, unmanaged
	}
	stamp, err := DecodeStamp(text)
	switch {
	case errors.Is(err, ErrStampVersion):
		return Stamp{}, unknownVersion
	case err != nil || stamp.UID == "" || !stamp.Owned(stamp.UID, instanceUUID):
		return Stamp{}, unmanaged
	}
	return stamp, ours
}

const (
	// unmanaged: it bears no stamp, a garbled one, or the stamp of the VM that it is a copy of.
	unmanaged owner = iota
	// ours: it bears a valid stamp, of whatever group.
	ours
	// unknownVersion: it bears a stamp that only a newer server understands. It is counted and never touched.
	unknownVersion
	// unreadable: its configuration cannot be read now, so that it may be anybody's.
	unreadable
)
