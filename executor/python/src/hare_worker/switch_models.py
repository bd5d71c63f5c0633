"""The models of hare bench switch, all with random weights: those of the paper, and small ones
of PyTorch alone. Each function returns a module and the arguments of its forward pass. A batch
factor multiplies the examples of a batch (of the graphs the nodes and edges)."""

import importlib.util

from . import backend

# By the name of the package that is imported; what pip calls it.
PACKAGES = {"torch": "torch", "torchvision": "torchvision", "timm": "timm", "transformers": "transformers",
            "torchaudio": "torchaudio", "torch_geometric": "torch_geometric"}


def require(names, instead="--set small") -> None:
    missing = [n for n in names if importlib.util.find_spec(n) is None]
    if missing:
        raise backend.UserError(f"missing: {', '.join(missing)}. Install with: pip install "
                                f"{' '.join(PACKAGES[n] for n in missing)}; or measure other models by {instead}")


def paper(batch_factor: int = 1) -> dict:
    require(PACKAGES)
    import torch

    # What only some models need is imported with them: a new process has one model.
    def image(name, side, count):
        import timm
        return timm.create_model(name, pretrained=False), (torch.randn(count * batch_factor, 3, side, side),)

    def bert():
        import transformers
        config = transformers.BertConfig()
        return transformers.BertModel(config), (torch.randint(0, config.vocab_size, (4 * batch_factor, 64)),)

    def transformer():
        sequences = (8 * batch_factor, 32, 512)
        return torch.nn.Transformer(512, 8, 6, 6, batch_first=True), (torch.randn(sequences), torch.randn(sequences))

    def deep_speech():
        import torchaudio
        return torchaudio.models.DeepSpeech(n_feature=161), (torch.randn(4 * batch_factor, 1, 100, 161),)

    def graph(convolution):
        import torch_geometric.nn
        kind = getattr(torch_geometric.nn, convolution)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = kind(602, 256), kind(256, 41)

            def forward(self, x, edges):
                return self.second(torch.relu(self.first(x, edges)), edges)

        nodes = 2048 * batch_factor
        return Net(), (torch.randn(nodes, 602), torch.randint(0, nodes, (2, 10 * nodes)))

    return {"VGG19": lambda: image("vgg19", 224, 4), "ResNet50": lambda: image("resnet50", 224, 4),
            "InceptionV3": lambda: image("inception_v3", 299, 4), "BERT-base": bert, "Transformer": transformer,
            "DeepSpeech": deep_speech, "FastGCN": lambda: graph("GCNConv"), "GraphSAGE": lambda: graph("SAGEConv")}


def small(batch_factor: int = 1) -> dict:
    require(["torch"], "--set plain --device cpu")
    import torch

    def dense(width, depth):
        layers = [x for _ in range(depth) for x in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers), (torch.randn(8 * batch_factor, width),)

    def image():
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4),
            torch.nn.Flatten(), torch.nn.Linear(256, 64)), (torch.randn(4 * batch_factor, 3, 16, 16),)

    def attention():
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
        return torch.nn.TransformerEncoder(layer, 2), (torch.randn(4 * batch_factor, 8, 64),)

    return {"dense-64": lambda: dense(64, 4), "dense-256": lambda: dense(256, 4), "image": image,
            "attention": attention}


def plain() -> dict:
    """Models without PyTorch, by the sizes of their groups."""
    return {f"plain-{n}": [n << 10] * n for n in (4, 8, 16)}
