package check

import (
	"io"

	"codeconnect.vmworld.com/vmgroup/vsphere/check/recording"
)

// Recorder records what the server and vCenter say to each other, without private texts: its Wire is for the configuration of the session, its Section
// for Options.Begin.
type Recorder = recording.Recorder

// NewRecorder begins a recording. The caller closes the writer after the last call.
func NewRecorder(out io.Writer) *Recorder { return recording.New(out) }
