package wire

import (
	"github.com/hare-sched/hare"
)

// These constants name the versions of the JSON documents.
const (
	InstanceForm    = "instance/v1"
	ResultForm      = "result/v1"
	CertificateForm = "certificate/v1"
)

// instanceDoc is an instance while it is read or written.
type instanceDoc struct {
	*hare.Instance
	d    *instanceReader
	form string
}

// jobDoc is a job while it is read or written.
type jobDoc struct {
	*hare.Job
	d           *instanceReader
	mix         bool
	unknownSync bool
	profile     profileDoc // the profile that is being written
}

// profileDoc is a profile while it is read or written.
type profileDoc struct {
	*hare.Profile
	d        *instanceReader
	mayLearn bool // the profile may be empty, which means that the speed is to be learned
	learned  bool // the profile is empty
}

type instanceReader struct {
	*Reader
	root     string // pointer of the instance within its document
	inst     *hare.Instance
	ids      map[string]int // job id to index
	nodes    map[string]int // node name to index in the document
	gpus     int64
	full     bool // the document has more than MaxGPUs, and the fault has been recorded
	hasJobs  bool
	bySpread bool // some time goes by the spread of a round
	// mayBeEmpty allows a cluster without nodes.
	mayBeEmpty bool
	// These fields hold what is being read, so that reading a job allocates
	// nothing.
	jobDoc     jobDoc
	profileDoc profileDoc
	one        hare.Job
	scratch    []hare.Profile
}

func newInstanceReader(rd *Reader, root string) *instanceReader {
	return &instanceReader{Reader: rd, root: root, inst: &hare.Instance{}, ids: map[string]int{},
		nodes: map[string]int{}}
}

// unique records a fault where another job has the same id.
func (d *instanceReader) unique(id string, found *hare.InvalidErrors) {
	if first, twice := d.ids[id]; twice && id != "" {
		found.Add("/id", "duplicate_id", "id %q appears twice, first at %s/jobs/%d: ids must differ", hare.Clip(id),
			d.root, first)
		return
	}
	d.ids[id] = len(d.inst.Jobs)
}

func (r *Reader) sync(to *hare.Sync, unknown *bool) error {
	*unknown = true
	text := ""
	if !r.Is('"') {
		return r.String(&text)
	}
	if err := r.String(&text); err != nil {
		return err
	}
	for _, s := range []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid} {
		if text == s.String() {
			*to, *unknown = s, false
			return nil
		}
	}
	return r.Fault("unknown_value", "sync %q: must be relaxed, gang or rigid", hare.Clip(text))
}

// clusterDoc is a cluster while it is read or written.
type clusterDoc struct {
	*hare.Cluster
	d    *instanceReader
	seen int // number of nodes in the document
}

// nodeDoc is a node and its copies while they are read or written.
type nodeDoc struct {
	hare.Node
	d       *instanceReader
	index   int   // index of the node in the document
	count   int64 // 0 means that the document has no count
	badGPUs bool
}
