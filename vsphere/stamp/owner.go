package stamp

import (
	"errors"
)

// Owner says whose a VM is.
type Owner int

const (
	// Unmanaged: it bears no stamp, a garbled one, or the stamp of the VM that it is a copy of.
	Unmanaged Owner = iota
	// Ours: it bears a valid stamp, of whatever group.
	Ours
	// UnknownVersion: it bears a stamp that only a newer server understands. It is counted and never touched.
	UnknownVersion
	// Unreadable: its configuration cannot be read now, so that it may be anybody's.
	Unreadable
)

// Read reads the text of a VM's stamp, which is empty if it bears none. readable reports whether the VM's configuration could be
// read, and with it that text.
func Read(text, instanceUUID string, readable bool) (Stamp, Owner) {
	switch {
	case !readable:
		return Stamp{}, Unreadable
	case text == "":
		return Stamp{}, Unmanaged
	}
	stamp, err := Decode(text)
	switch {
	case errors.Is(err, ErrVersion):
		return Stamp{}, UnknownVersion
	case err != nil || stamp.UID == "" || !stamp.Owned(stamp.UID, instanceUUID):
		return Stamp{}, Unmanaged
	}
	return stamp, Ours
}
